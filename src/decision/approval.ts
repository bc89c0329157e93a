import type { EscalationState } from "../state/escalations.ts";
import type { Action, DecisionReason } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";

/** Result of checking the escalation that an action presents, with the reason why it is unusable. */
export type ApprovalCheck =
  | { readonly kind: "usable"; readonly escalation: EscalationState }
  | { readonly kind: "unusable"; readonly reason: DecisionReason };

const refused = (escalationId: string, why: string): ApprovalCheck => ({
  kind: "unusable",
  reason: { code: "APPROVAL_NOT_USABLE", message: `escalation \`${escalationId}\` ${why}` },
});

/** Checks the escalation that an action presents; undefined when it presents none. */
export function checkApproval(state: WorkspaceState, action: Action, digest: string): ApprovalCheck | undefined {
  const { escalationId } = action;
  if (escalationId === undefined) return undefined;
  const escalation = state.escalations.get(escalationId);
  // Another agent's escalation is treated as none, so that its existence does not show.
  if (escalation === undefined || escalation.agentId !== action.agentId)
    return refused(escalationId, "does not exist for this agent");
  if (escalation.status !== "approved") return refused(escalationId, `is ${escalation.status}, not approved`);
  if (escalation.usedBy !== null) return refused(escalationId, `was used up by decision \`${escalation.usedBy}\``);
  if (escalation.actionDigest !== digest) return refused(escalationId, "was approved for another action");
  return { kind: "usable", escalation };
}
