/* Outcomes of the calls of one agent, as the service tells them. */
import type { GatewayService } from "./harness.ts";
import { until } from "./until.ts";

/** Outcome of a decision; null for one that is not tracked. */
export interface ToldOutcome {
  readonly status: string;
  readonly reported_by: string | null;
  readonly error: string | null;
}

/** A decision with its claim and its outcome. */
export interface ToldDecision {
  readonly decision_id: string;
  readonly decision: string;
  readonly claim: { readonly claim_id: string } | null;
  readonly outcome: ToldOutcome | null;
}

/** Returns the decisions on an agent's actions, oldest first. */
export async function decisionsOf(gateway: Pick<GatewayService, "rest">, agentId: string): Promise<ToldDecision[]> {
  const listed = await gateway.rest(`GET /v1/enforce/decisions?agent_id=${agentId}&page_size=500`);
  return (listed as unknown as { decisions: ToldDecision[] }).decisions.reverse();
}

/** Returns the outcome of an agent's latest decision. */
export async function lastOutcome(gateway: Pick<GatewayService, "rest">, agentId: string): Promise<ToldOutcome | null> {
  return (await decisionsOf(gateway, agentId)).at(-1)?.outcome ?? null;
}

/** Waits until an outcome is no longer pending, and returns it. */
export async function settledOutcome(
  gateway: Pick<GatewayService, "rest">,
  agentId: string,
): Promise<ToldOutcome | null> {
  let outcome: ToldOutcome | null = null;
  await until(async () => {
    outcome = await lastOutcome(gateway, agentId);
    return outcome?.status !== "pending";
  });
  return outcome;
}
