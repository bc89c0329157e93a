import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { nameFault, normaliseName } from "../policy/names.ts";
import type { Action } from "../state/types.ts";
import { createId, idFromUuid } from "../store/ids.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { readSources } from "./action-sources.ts";
import type { Caller } from "./context.ts";

function assertMayActAs(caller: Caller, agentId: string): void {
  if (caller.agentId === null || caller.agentId === agentId) return;
  const message = `the key is bound to agent \`${caller.agentId}\` and cannot act as \`${agentId}\``;
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_ALLOWED, message, { agent_id: agentId });
}

function normalise(actionType: string): string {
  const fault = nameFault(actionType);
  if (fault !== undefined) throw invalidField("action_type", fault);
  const normalised = normaliseName(actionType);
  if (normalised === "") throw invalidField("action_type", "must not be blank");
  return normalised;
}

/** Returns the action that a valid request asks to decide. Throws INVALID_FIELD and AGENT_NOT_ALLOWED. */
export function actionFrom(request: InterceptRequest, caller: Caller): Action {
  assertMayActAs(caller, request.agentId);
  const { requestId } = request;
  const { metadata, tool } = readSources(request.metadata, request.tool);
  return {
    decisionId: requestId === undefined ? createId("dec") : idFromUuid("dec", requestId),
    isRetryable: requestId !== undefined,
    agentId: request.agentId,
    actionType: request.actionType,
    normalisedType: normalise(request.actionType),
    actionContent: request.actionContent,
    metadata,
    metadataText: metadata === undefined ? "" : canonicalJson(metadata),
    tool,
    sessionId: request.sessionId,
    onBehalfOf: request.onBehalfOf,
    grantId: request.grantId,
    intentContractId: request.intentContractId,
    escalationId: request.escalationId,
    keyId: caller.keyId,
    isKeyBound: caller.agentId !== null,
  };
}
