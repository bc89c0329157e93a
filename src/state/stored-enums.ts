import type { Decision } from "../policy/types.ts";
import type { AgentStatus } from "./agents.ts";
import type { EscalationStatus } from "./escalations.ts";

// The numbers are those of the proto enums, and are stored. They never change.
const DECISIONS = [undefined, "allow", "block", "escalate"] as const;
const AGENT_STATUSES = [undefined, "active", "deactivated", "revoked"] as const;
const ESCALATION_STATUSES = [undefined, "pending", "approved", "rejected"] as const;

/** Kinds of log entries, as stored. */
export const EntryKind = {
  DECISION: 0,
  CHANGE: 1,
  /** A refusal that changes no trust and counts in no window. */
  UNCOUNTED_DECISION: 2,
} as const;

function wordAt<T>(words: readonly (T | undefined)[], number: number): T {
  const word = words[number];
  if (word === undefined) throw new RangeError(`no word has the number ${number}`);
  return word;
}

/** Converts a stored number to a decision. */
export const decisionFromNumber = (number: number): Decision => wordAt<Decision>(DECISIONS, number);
/** Converts a decision to its stored number. */
export const numberFromDecision = (decision: Decision): number => DECISIONS.indexOf(decision);
/** Converts a stored number to an agent status. */
export const agentStatusFromNumber = (number: number): AgentStatus => wordAt<AgentStatus>(AGENT_STATUSES, number);
/** Converts an agent status to its stored number. */
export const numberFromAgentStatus = (status: AgentStatus): number => AGENT_STATUSES.indexOf(status);
/** Converts a stored number to an escalation status. */
export const escalationStatusFromNumber = (number: number): EscalationStatus =>
  wordAt<EscalationStatus>(ESCALATION_STATUSES, number);
/** Converts an escalation status to its stored number. */
export const numberFromEscalationStatus = (status: EscalationStatus): number => ESCALATION_STATUSES.indexOf(status);
