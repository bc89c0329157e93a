import { idWithPrefix } from "../store/ids.ts";

/** Status of an escalation, in the words of the proto enum `EscalationStatus`. */
export type EscalationStatus = "pending" | "approved" | "rejected";

/** The part of an escalation that deciding depends on. */
export interface EscalationState {
  readonly escalationId: string;
  readonly agentId: string;
  readonly actionDigest: string;
  status: EscalationStatus;
  /** The decision that used the approval up. */
  usedBy: string | null;
}

/** The id of the escalation that a decision creates: it shares the decision's UUID. */
export const escalationIdOf = (decisionId: string): string => idWithPrefix("esc", decisionId);
