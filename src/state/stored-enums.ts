import type { Decision } from "../policy/types.ts";
import type { AgentStatus } from "./agents.ts";
import type { EscalationStatus } from "./escalations.ts";

// The numbers are those of the proto enums and of the columns; they never change.
const DECISIONS = [undefined, "allow", "block", "escalate"] as const;
const AGENT_STATUSES = [undefined, "active", "deactivated", "revoked"] as const;
const ESCALATION_STATUSES = [undefined, "pending", "approved", "rejected"] as const;

function wordAt<T>(words: readonly (T | undefined)[], number: number): T {
  const word = words[number];
  if (word === undefined) throw new RangeError(`no word has the number ${number}`);
  return word;
}

/** The word of a stored decision. */
export const decisionFromNumber = (number: number): Decision => wordAt<Decision>(DECISIONS, number);
/** The number that a decision is stored under. */
export const numberFromDecision = (decision: Decision): number => DECISIONS.indexOf(decision);
/** The word of a stored agent status. */
export const agentStatusFromNumber = (number: number): AgentStatus => wordAt<AgentStatus>(AGENT_STATUSES, number);
/** The number that an agent status is stored under. */
export const numberFromAgentStatus = (status: AgentStatus): number => AGENT_STATUSES.indexOf(status);
/** The word of a stored escalation status. */
export const escalationStatusFromNumber = (number: number): EscalationStatus =>
  wordAt<EscalationStatus>(ESCALATION_STATUSES, number);
/** The number that an escalation status is stored under. */
export const numberFromEscalationStatus = (status: EscalationStatus): number => ESCALATION_STATUSES.indexOf(status);
