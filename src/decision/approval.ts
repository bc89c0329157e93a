import { type ApprovalDemand, approversText, coversDemand, demandKey } from "../policy/approvers.ts";
import type { SealedDemand } from "../state/control-changes.ts";
import { type EscalationState, escalationIdOf } from "../state/escalations.ts";
import type { Action, DecisionReason, Outcome } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { actionDigest } from "./action-digest.ts";
import type { Attempt, Verdict } from "./verdict.ts";

/**
 * Turns an escalation into `allow` if the action presents an unused approval of this very action; else asks for one. `demands`: what rules
 * with approvers ask for.
 */
export function applyApproval(
  attempt: Attempt,
  verdict: Verdict,
  demands: readonly ApprovalDemand[] = verdict.policy?.demands ?? [],
): Verdict {
  if (verdict.decision !== "escalate") return verdict;
  const { state, action, tool, toolName, nowMs } = attempt;
  const { digest, ignored } = actionDigest(action, toolName, tool, state.settings.approval_ignores);
  const approval = checkApproval(state, action, digest, nowMs, demands);
  const escalated = { ...verdict, actionDigest: digest, digestIgnores: ignored };
  if (approval === undefined) return askFor(attempt, escalated, digest, demands);
  if (approval.kind === "unusable") {
    const replacedEscalationId = approval.spent?.escalationId;
    return askFor(
      attempt,
      { ...escalated, reasons: [...verdict.reasons, approval.reason], replacedEscalationId },
      digest,
      demands,
    );
  }
  const { escalationId } = approval.escalation;
  const reason: DecisionReason = { code: "APPROVED", message: `escalation \`${escalationId}\` approved this action` };
  const reasons = [reason, ...verdict.reasons];
  return { ...escalated, decision: "allow", path: "approved", reasons, usedEscalationId: escalationId };
}

/** Joins or creates the escalation of an action. Blocks the action when too many escalations of its agent are pending. */
function askFor(
  { state, action, nowMs }: Attempt,
  verdict: Verdict,
  digest: string,
  demands: readonly ApprovalDemand[],
): Verdict {
  const ttlSeconds = verdict.policy?.winner?.rule.source.escalationTtlSeconds;
  const result = askApproval(state, action, digest, nowMs, ttlSeconds);
  if (result.kind === "asked") {
    const { escalationId = "" } = result.asked;
    const known = state.escalations.get(escalationId)?.demands ?? [];
    return { ...verdict, ...result.asked, demands: newDemands(demands, known, nowMs) };
  }
  const reasons = [result.reason, ...verdict.reasons];
  return { ...verdict, decision: "block", reasons, replacedEscalationId: undefined };
}

/** Returns the demands that an escalation does not have yet, in the form that is sealed. */
function newDemands(
  demands: readonly ApprovalDemand[],
  known: readonly string[],
  nowMs: number,
): readonly SealedDemand[] {
  return demands
    .filter((demand) => !known.includes(demandKey(demand)))
    .map(({ mandateId, rule, groups, atLeast, remindAfterSeconds: seconds }) => ({
      mandate_id: mandateId,
      rule,
      groups,
      at_least: atLeast,
      ...(seconds === undefined ? {} : { remind_at: new Date(nowMs + seconds * 1000).toISOString() }),
    }));
}

/** Result of checking the escalation that an action presents, with the reason why it is unusable. */
export type ApprovalCheck =
  | { readonly kind: "usable"; readonly escalation: EscalationState }
  | {
      readonly kind: "unusable";
      readonly reason: DecisionReason;
      /** Set if the action was approved, but the approval is used up or expired. */
      readonly spent?: EscalationState;
    };

/** Reason codes of a presented escalation that is unusable. */
type UnusableCode = "APPROVAL_NOT_USABLE" | "APPROVAL_USED" | "APPROVAL_EXPIRED";

function unusable(escalationId: string, why: string, code: UnusableCode = "APPROVAL_NOT_USABLE") {
  return { kind: "unusable", reason: { code, message: `escalation \`${escalationId}\` ${why}` } } as const;
}

/**
 * Checks the escalation that an action presents; undefined if it presents none. `demands`: of rules with approvers, which
 * may be more than when the action was approved.
 */
export function checkApproval(
  state: WorkspaceState,
  action: Action,
  digest: string,
  nowMs: number,
  demands: readonly ApprovalDemand[] = [],
): ApprovalCheck | undefined {
  const { escalationId } = action;
  if (escalationId === undefined) return undefined;
  const escalation = state.escalations.get(escalationId);
  // Another agent's escalation is treated as unknown, so that its existence does not show.
  if (escalation === undefined || escalation.agentId !== action.agentId)
    return unusable(escalationId, "does not exist for this agent");
  const { status, usedBy, expiresAtMs } = escalation;
  const isExpired = expiresAtMs <= nowMs;
  if (status === "pending" && isExpired) return unusable(escalationId, "expired before anyone approved it");
  if (status !== "approved") return unusable(escalationId, `is ${status}, not approved`);
  if (escalation.actionDigest !== digest) return unusable(escalationId, "was approved for another action");
  if (usedBy !== null) {
    return { ...unusable(escalationId, `was used up by decision \`${usedBy}\``, "APPROVAL_USED"), spent: escalation };
  }
  const missing = demands.find((demand) => !coversDemand(escalation.demands ?? [], demand));
  if (missing !== undefined) {
    const { mandateId, rule, groups, atLeast } = missing;
    const wanted = `\`${rule}\` of mandate \`${mandateId}\`, which wants ${approversText(groups, atLeast)}`;
    return unusable(escalationId, `was approved without ${wanted}`);
  }
  if (!isExpired) return { kind: "usable", escalation };
  const until = new Date(expiresAtMs).toISOString();
  return { ...unusable(escalationId, `was approved until ${until}`, "APPROVAL_EXPIRED"), spent: escalation };
}

/** The escalation that an action waits for, or the reason why it may not wait. */
export type AskResult =
  | { readonly kind: "asked"; readonly asked: Pick<Outcome, "escalationId" | "escalationExpiresAtMs"> }
  | { readonly kind: "refused"; readonly reason: DecisionReason };

/**
 * Asks for an approval of an action: joins the agent's pending escalation of this very action, or creates one, unless too many
 * are pending. The escalation of an edited action does not count, because the new one replaces it. `ttlSeconds` comes from the
 * rule that escalates; default: the workspace's setting.
 */
export function askApproval(
  { escalations, settings }: WorkspaceState,
  { agentId, decisionId, editOf }: Action,
  digest: string,
  nowMs: number,
  ttlSeconds: number = settings.escalation_ttl_seconds,
): AskResult {
  const { same, count } = escalations.pendingOf(agentId, digest, nowMs, editOf);
  if (same !== undefined) {
    return { kind: "asked", asked: { escalationId: same.escalationId, escalationExpiresAtMs: undefined } };
  }
  const most = settings.max_pending_escalations_per_agent;
  if (count >= most) {
    const message = `the agent has ${count} pending escalations, and at most ${most} are allowed`;
    return { kind: "refused", reason: { code: "TOO_MANY_PENDING", message } };
  }
  const escalationExpiresAtMs = nowMs + ttlSeconds * 1000;
  return { kind: "asked", asked: { escalationId: escalationIdOf(decisionId), escalationExpiresAtMs } };
}
