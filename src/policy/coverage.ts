import type { CompiledMandate, CompiledRule, EvaluationContext, Principal, ScopeWord } from "./types.ts";

/** Tests whether the scope of a mandate covers an agent. */
export function coversAgent(
  { scope, agentId, departmentId }: Pick<CompiledMandate, "scope" | "agentId" | "departmentId">,
  agent: Principal,
): boolean {
  if (scope === "workspace") return true;
  if (scope === "agent") return agent.agentId === agentId;
  return departmentId !== undefined && agent.departmentIds.includes(departmentId);
}

/** Returns the group of agents whose past actions a rule looks at together; undefined for a rule that looks at none. */
export function groupOfRule({
  velocity,
  budget,
  ordered,
}: CompiledRule): { readonly scope: ScopeWord; readonly departmentId?: string } | undefined {
  return velocity?.counter ?? budget?.pot ?? ordered;
}

/** Tests whether a rule covers an agent: a sequence rule on one department covers only the members of that department. */
export function ruleCoversAgent(rule: CompiledRule, { departmentIds }: Principal): boolean {
  const departmentId = groupOfRule(rule)?.departmentId;
  return departmentId === undefined || departmentIds.includes(departmentId);
}

/**
 * Lists the agents for whose groups a velocity rule or budget counts an action: of the acting agent and its principal, those that the mandate
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
