import type { CompiledMandate, CompiledRule, EvaluationContext, Principal } from "./types.ts";

/** Tests whether the scope of a mandate covers an agent. */
export function coversAgent(
  { scope, agentId, departmentId }: Pick<CompiledMandate, "scope" | "agentId" | "departmentId">,
  agent: Principal,
): boolean {
  if (scope === "workspace") return true;
  if (scope === "agent") return agent.agentId === agentId;
  return departmentId !== undefined && agent.departmentIds.includes(departmentId);
}

/** Tests whether a rule covers an agent: a sequence rule on one department covers only the members of that department. */
export function ruleCoversAgent({ velocity, ordered }: CompiledRule, { departmentIds }: Principal): boolean {
  const departmentId = velocity?.counter.departmentId ?? ordered?.departmentId;
  return departmentId === undefined || departmentIds.includes(departmentId);
}

/**
 * Lists the agents for whose groups a velocity rule counts an action: of the acting agent and its principal, those that the mandate
 * covers; the acting agent if it covers neither, as the mandate of a lender between the two. Empty if the rule covers none of them.
 */
export function countedAgents(
  mandate: CompiledMandate,
  rule: CompiledRule,
  context: EvaluationContext,
): readonly Principal[] {
  const [principal] = context.principals ?? [];
  const agents = principal === undefined || principal.agentId === context.agentId ? [context] : [context, principal];
  const covered = agents.filter((agent) => coversAgent(mandate, agent));
  return (covered.length === 0 ? [context] : covered).filter((agent) => ruleCoversAgent(rule, agent));
}
