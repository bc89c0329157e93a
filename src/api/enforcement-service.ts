import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import {
  EnforcementService,
  type InterceptRequest,
  type InterceptResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Intercept } from "../decision/intercept.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { readReceipts, readToolDigest } from "../log/receipts.ts";
import { listDecisionReceipts } from "../registry/decisions.ts";
import type { SealedDecision } from "../state/types.ts";
import { actionFrom } from "./action.ts";
import type { CallContext, Caller } from "./context.ts";
import { decisionMapping, decisionPathMapping } from "./enum-mapping.ts";
import { interceptAll } from "./intercept-stream.ts";
import { pageFrom } from "./paging.ts";
import { decisionRecordFrom, receiptMessageFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

function responseFrom(sealed: SealedDecision, receivedAt: number): MessageInitShape<typeof InterceptResponseSchema> {
  return {
    decision: decisionMapping.toProto(sealed.decision),
    trustScore: sealed.trustBeforeTenths / 10,
    decisionId: sealed.decisionId,
    escalationId: sealed.escalationId,
    policyName: sealed.policyName,
    latencyMs: Math.round(performance.now() - receivedAt),
    decisionPath: decisionPathMapping.toProto(sealed.path),
    reasons: sealed.reasons.map((reason) => ({ ...reason })),
    ...(sealed.isReplayed ? { replayed: true, decidedAt: timestampFromMs(sealed.atMs) } : {}),
  };
}

/** Creates the functions of EnforcementService, which decide actions and read decisions back from the log. */
export function createEnforcementService({
  intercept,
  pool,
}: {
  readonly intercept: Intercept;
  readonly pool: Pool;
}): ServiceDefinition {
  const interceptOne = async (request: InterceptRequest, caller: Caller, waiter: CallContext, receivedAt: number) => {
    const action = actionFrom(request, caller);
    const sealed = await intercept({ workspaceId: caller.workspaceId, action, waiter });
    return responseFrom(sealed, receivedAt);
  };
  return defineService(EnforcementService, {
    intercept: (request, context) => interceptOne(request, context.caller, context, context.receivedAt),
    interceptStream: (requests, context) =>
      interceptAll(requests, (request, caller) => interceptOne(request, caller, context, performance.now())),
    async getDecision({ decisionId }, { caller }) {
      const receipts = await readReceipts(pool, caller.workspaceId, [decisionId]);
      const receipt = receipts.get(decisionId);
      if (receipt === undefined) {
        throw new ControlPlaneError(ErrorReason.DECISION_NOT_FOUND, `no decision \`${decisionId}\``, {
          decision_id: decisionId,
        });
      }
      const toolDigest = await readToolDigest(pool, caller.workspaceId, receipt);
      return { decision: decisionRecordFrom(receipt), receipt: receiptMessageFrom(receipt, toolDigest) };
    },
    async listDecisions(request, { caller }) {
      const { agentId, since, until } = request;
      const decision = decisionMapping.fromProto(request.decision);
      const filter = {
        agentId: agentId === "" ? undefined : agentId,
        decision,
        sinceMs: since === undefined ? undefined : timestampMs(since),
        untilMs: until === undefined ? undefined : timestampMs(until),
      };
      const page = pageFrom(request, "decisions", filter.agentId, decision, filter.sinceMs, filter.untilMs);
      const { items, next } = await listDecisionReceipts(pool, caller.workspaceId, filter, page);
      return { decisions: items.map(decisionRecordFrom), nextPageToken: page.tokenAfter(next) };
    },
  });
}
