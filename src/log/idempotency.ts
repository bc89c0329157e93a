import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { toolKey } from "../policy/names.ts";
import type { Action } from "../state/types.ts";
import { idFromDigest } from "../store/ids.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { DecisionReceipt } from "./receipts.ts";

/** Time for which a `request_id` names its first decision, milliseconds. */
const REQUEST_ID_TTL_MS = 86_400_000;

function isSameRequest(action: Action, { body }: DecisionReceipt): boolean {
  const { metadata } = body.action;
  return (
    body.key_id === action.keyId &&
    body.action.agent_id === action.agentId &&
    body.action.action_type === action.actionType &&
    body.action.action_content === action.actionContent &&
    (metadata === undefined ? "" : canonicalJson(metadata)) === action.metadataText &&
    body.on_behalf_of === action.onBehalfOf &&
    body.presented_escalation_id === action.escalationId &&
    body.session_id === action.sessionId &&
    body.grant_id === action.grantId &&
    body.intent_contract_id === action.intentContractId &&
    (body.action.tool_requested === true ? toolKey(body.action.tool ?? "") : undefined) ===
      (action.tool === undefined ? undefined : toolKey(action.tool))
  );
}

/**
 * Checks that a repeated request (AIP-155) may still be answered with its first decision. Throws REQUEST_ID_REUSED if it was for
 * another action or by another key, and REQUEST_ID_EXPIRED after 24 hours.
 */
export function assertRepeatable(action: Action, receipt: DecisionReceipt, nowMs: number): void {
  const { body } = receipt;
  const { decision_id, decision, decision_path, at } = body;
  if (!isSameRequest(action, receipt)) {
    const message = "the `request_id` was used for another request; send a new one";
    throw new ControlPlaneError(ErrorReason.REQUEST_ID_REUSED, message, { decision_id });
  }
  if (nowMs - Date.parse(at) < REQUEST_ID_TTL_MS) return;
  const message = `the \`request_id\` was used more than 24 hours ago, for decision \`${decision_id}\`; send a new one`;
  const first = { decision_id, decision, decision_path, decided_at: at };
  throw new ControlPlaneError(ErrorReason.REQUEST_ID_EXPIRED, message, first);
}

/** Returns the action that seals the refusal of a repeated request. Its id is the same for every repeat: one refusal is enough. */
export function replayOf(action: Action): Action {
  const decisionId = idFromDigest("dec", `refused replay of ${action.decisionId}`);
  return { ...action, decisionId, replayOf: action.decisionId };
}
