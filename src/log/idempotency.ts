import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { canonicalJson } from "../tree/canonical.ts";
import { type DecisionReceipt, sealedDecisionFromReceipt } from "./receipts.ts";

function isSameAction(action: Action, { body }: DecisionReceipt): boolean {
  const { metadata } = body.action;
  return (
    body.action.agent_id === action.agentId &&
    body.action.action_type === action.actionType &&
    body.action.action_content === action.actionContent &&
    (metadata === undefined ? "" : canonicalJson(metadata)) === action.metadataText &&
    body.on_behalf_of === action.onBehalfOf &&
    body.presented_escalation_id === action.escalationId &&
    body.session_id === action.sessionId &&
    body.grant_id === action.grantId &&
    body.intent_contract_id === action.intentContractId &&
    (action.tool === undefined || body.action.tool === action.tool)
  );
}

/** Returns the original decision for a retried request. Throws REQUEST_ID_REUSED if it was for another action (AIP-155). */
export function firstDecision(action: Action, receipt: DecisionReceipt): SealedDecision {
  if (isSameAction(action, receipt)) return sealedDecisionFromReceipt(receipt);
  const message = "the `request_id` was used for another action; send a new one";
  throw new ControlPlaneError(ErrorReason.REQUEST_ID_REUSED, message, { decision_id: action.decisionId });
}
