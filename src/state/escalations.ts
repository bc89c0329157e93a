import { idWithPrefix } from "../store/ids.ts";

/** Status of an escalation; the words of the proto enum `EscalationStatus`. */
export type EscalationStatus = "pending" | "approved" | "rejected";

/** Facts of an escalation that decisions depend on. */
export interface EscalationState {
  readonly escalationId: string;
  readonly agentId: string;
  readonly actionDigest: string;
  status: EscalationStatus;
  /** Decision that used the approval up; null while it is unused. */
  usedBy: string | null;
}

/** Returns the id of the escalation that a decision creates. Both share one UUID. */
export const escalationIdOf = (decisionId: string): string => idWithPrefix("esc", decisionId);
