import { AgentBlockedError, createControlPlane, type Guarded, PendingApproval } from "@agent-control-plane/client";
import { EscalationService, EscalationStatus } from "@agent-control-plane/client/proto";

const controlPlane = createControlPlane({ baseUrl: "https://control.example.com", apiKey: "key" });
const common = { agentId: "agt_1", actionType: "order", toArguments: (pieces: number, part: string) => ({ pieces, part }) };

export const order: Guarded<[pieces: number, part: string], string> = controlPlane.guard(
  (pieces: number, part: string) => `${pieces} ${part}`,
  common,
);
export const text: string = await order.with({ signal: AbortSignal.timeout(1_000), sessionId: "ses_1" })(1, "bolt");

const impatient = controlPlane.guard((pieces: number, _part: string) => pieces, { ...common, waitOnEscalate: false });
const count: number | PendingApproval = await impatient(1, "bolt").catch((error: unknown) => {
  if (error instanceof AgentBlockedError) return error.forModel.length;
  throw error;
});
export const isPending: boolean = count instanceof PendingApproval;

const { escalations } = await controlPlane.client(EscalationService).listEscalations({ pageSize: 10 });
export const pending = escalations.filter(({ status }) => status === EscalationStatus.PENDING);
