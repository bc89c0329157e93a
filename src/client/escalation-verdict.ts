import { EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";

/** What a human said. */
export type EscalationVerdict = "approved" | "rejected";

/** The verdict that a status stands for; undefined while nobody has decided. */
export function verdictFrom(status: EscalationStatus): EscalationVerdict | undefined {
  if (status === EscalationStatus.APPROVED) return "approved";
  return status === EscalationStatus.REJECTED ? "rejected" : undefined;
}
