import { type InterceptAction, type InterceptReason, type InterceptResult, retryAfterFrom } from "./intercept-call.ts";

/**
 * Result of a guarded call that needs an approval and does not wait for it. The guarded function did not run. Once approved, the
 * action is allowed when it is intercepted again with `escalationId`; the approval covers exactly `action`.
 */
export class PendingApproval implements InterceptResult {
  readonly decision = "escalate";
  readonly trustScore: number;
  readonly decisionId: string;
  readonly escalationId: string;
  readonly policyName: string | null;
  readonly latencyMs: number;
  readonly decisionPath: string;
  readonly reasons: readonly InterceptReason[];
  readonly replayed: boolean;
  readonly tool: string | null;
  readonly claimed = null;
  readonly reportOutcome = false;
  /** The action as it was intercepted. */
  readonly action: InterceptAction;
  /** Time from which the action needs no approval, if only limits asked for one and nothing else happens; else null. */
  readonly retryAfter: Date | null;

  constructor(result: InterceptResult, escalationId: string, action: InterceptAction) {
    this.trustScore = result.trustScore;
    this.decisionId = result.decisionId;
    this.escalationId = escalationId;
    this.policyName = result.policyName;
    this.latencyMs = result.latencyMs;
    this.decisionPath = result.decisionPath;
    this.reasons = result.reasons;
    this.replayed = result.replayed;
    this.tool = result.tool;
    this.action = action;
    this.retryAfter = retryAfterFrom(result.reasons);
  }
}
