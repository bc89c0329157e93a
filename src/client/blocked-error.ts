import type { InterceptReason } from "./intercept-call.ts";
import { stoppedText } from "./model-text.ts";

/** The decision behind the error of a guarded call. */
export interface DecisionDetails {
  readonly reasons?: readonly InterceptReason[];
  readonly escalationId?: string | null;
  readonly decisionId?: string | null;
  readonly note?: string | null;
  /** Default: the message. */
  readonly forModel?: string;
  readonly cause?: unknown;
}

/**
 * Refuses a guarded call: the action was blocked, rejected, or could not be decided. The guarded function did not run; only
 * an `AgentStoppedError` also ends a call whose function was running.
 */
export class AgentBlockedError extends Error {
  override readonly name: string = "AgentBlockedError";
  /** `block`, or `escalate` when no approval came or it did not fit; null when the control plane was not reached. */
  readonly decision: "block" | "escalate" | null;
  /** The reasons, most decisive first; empty when nothing was decided. */
  readonly reasons: readonly InterceptReason[];
  readonly escalationId: string | null;
  /** The sealed decision; null when nothing was decided or only the escalation is known. */
  readonly decisionId: string | null;
  /** What the person who rejected the action said to the agent; null for nothing. The message holds it too. */
  readonly note: string | null;
  /**
   * The refusal in words for the language model that asked for the call, to be returned as the result of its tool: the reasons, or
   * what the person said, and what to do now.
   */
  readonly forModel: string;

  constructor(message: string, decision: AgentBlockedError["decision"], details: DecisionDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.decision = decision;
    this.reasons = details.reasons ?? [];
    this.escalationId = details.escalationId ?? null;
    this.decisionId = details.decisionId ?? null;
    this.note = details.note ?? null;
    this.forModel = details.forModel ?? message;
  }
}

/**
 * Reports that nobody resolved an escalation in time. The escalation stays pending and may still be resolved. An
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
 * Reports that the agent was taken out of service or its session was killed. A guarded function that was running may have
 * had its effect, in whole or in part; it continues unless it obeys its signal, and its result is discarded.
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
