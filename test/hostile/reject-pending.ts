import type { TestServiceProcess } from "../support/service.ts";

/** Rejects the pending escalations of an agent, at most 500: an agent may have no more than 1,000, and is blocked with more. */
export async function rejectPending(
  service: Pick<TestServiceProcess, "rest" | "resolve">,
  agentId: string,
): Promise<void> {
  const path = `GET /v1/enforce/escalations?status=pending&page_size=500&agent_id=${agentId}`;
  const { escalations = [] } = (await service.rest(path)) as unknown as { escalations?: { escalation_id: string }[] };
  for (const { escalation_id } of escalations) await service.resolve(escalation_id, "rejected");
}
