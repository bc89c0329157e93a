/** Where an escalation stands; the words of the proto enum `EscalationStatus`. */
export type EscalationStatus = "pending" | "approved" | "rejected";

/** What deciding needs of an escalation that an action presents. */
export interface EscalationState {
  readonly escalationId: string;
  readonly agentId: string;
  readonly actionDigest: string;
  status: EscalationStatus;
  /** The decision that used the approval up. */
  usedBy: string | null;
}
