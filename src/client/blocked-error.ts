import { type InterceptReason, retryAfterFrom } from "./intercept-call.ts";
import { alreadyRunText, stoppedText } from "./model-text.ts";

/** The decision behind the error of a guarded call. */
export interface DecisionDetails {
  readonly reasons?: readonly InterceptReason[];
  readonly escalationId?: string | null;
  readonly decisionId?: string | null;
  readonly note?: string | null;
  /** Default: from the reasons. */
  readonly retryAfter?: Date | null;
  /** Default: the message. */
  readonly forModel?: string;
  readonly cause?: unknown;
}

/**
 * Refusal of a guarded call: the action was blocked, rejected, or could not be decided. The guarded function did not run; only an
 * `AgentStoppedError` also ends a call whose function was running.
 */
export class AgentBlockedError extends Error {
  override readonly name: string = "AgentBlockedError";
  /** `block`; `escalate` if the approval is missing or does not fit; null if the control plane was not reached. */
  readonly decision: "block" | "escalate" | null;
  /** The reasons, most decisive first; empty when nothing was decided. */
  readonly reasons: readonly InterceptReason[];
  readonly escalationId: string | null;
  /** Id of the sealed decision; null if nothing was decided or only the escalation is known. */
  readonly decisionId: string | null;
  /** Note to the agent by the person who rejected the action. It is part of the message too. */
  readonly note: string | null;
  /**
   * Time from which no limit refuses the action any more, if nothing else happens: the same call may then be tried again. Null if
   * anything but limits refused it, if a limit never has room, and after a person's rejection.
   */
  readonly retryAfter: Date | null;
  /**
   * Text for the language model that made the call, to be returned as the tool's result: the reasons or the person's note, and
   * what to do now.
   */
  readonly forModel: string;

  constructor(message: string, decision: AgentBlockedError["decision"], details: DecisionDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.decision = decision;
    this.reasons = details.reasons ?? [];
    this.escalationId = details.escalationId ?? null;
    this.decisionId = details.decisionId ?? null;
    this.note = details.note ?? null;
    this.retryAfter = details.retryAfter === undefined ? retryAfterFrom(this.reasons) : details.retryAfter;
    this.forModel = details.forModel ?? message;
  }
}

/**
 * Error of a call whose escalation nobody resolved in time. The escalation stays pending and may still be resolved. It is an *
 * `AgentBlockedError`, so that callers handle a missing verdict like a rejection.
 */
export class EscalationTimeoutError extends AgentBlockedError {
  override readonly name = "EscalationTimeoutError";
  /** Length of the wait, in seconds. */
  readonly timeout: number;

  constructor(escalationId: string, timeout: number, details: DecisionDetails = {}) {
    super(`nobody resolved escalation \`${escalationId}\` within ${timeout} s`, "escalate", {
      ...details,
      escalationId,
    });
    this.timeout = timeout;
  }
}

/**
 * Error of a call whose action another call has claimed, with the same `requestId` or another presentation of the same decision: that one
 * runs it, or has run it. The guarded function did not run in this call.
 */
export class AlreadyClaimedError extends AgentBlockedError {
  override readonly name = "AlreadyClaimedError";

  constructor(actionType: string, decisionId: string, cause: unknown) {
    const message = `\`${actionType}\` does not run: decision \`${decisionId}\` is claimed by another call, which runs it or has run it`;
    super(message, "block", { decisionId, forModel: alreadyRunText(actionType), cause });
  }
}

/** The change that stopped an agent. */
export interface StopDetails {
  /** The agent was deactivated or revoked, or the session was killed. */
  readonly change: "deactivated" | "revoked" | "killed";
  /** Set when a session was killed. */
  readonly sessionId?: string | null;
  /** Set when the agent was revoked. */
  readonly revocationId?: string | null;
}

/**
 * Error of a call whose agent was deactivated or revoked, or whose session was killed. A guarded function that was running may
 * have had its effect, in whole or in part. It continues unless it obeys its signal, and its result is discarded.
 */
export class AgentStoppedError extends AgentBlockedError {
  override readonly name = "AgentStoppedError";
  readonly agentId: string;
  readonly change: StopDetails["change"];
  readonly sessionId: string | null;
  readonly revocationId: string | null;

  constructor(agentId: string, { change, sessionId = null, revocationId = null }: StopDetails) {
    const message = change === "killed" ? `session \`${sessionId}\` was killed` : `agent \`${agentId}\` was ${change}`;
    const forModel = stoppedText(change === "killed" ? "your session was ended" : `you were ${change}`);
    super(message, "block", { forModel });
    this.agentId = agentId;
    this.change = change;
    this.sessionId = sessionId;
    this.revocationId = revocationId;
  }
}
