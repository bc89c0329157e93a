import {
  agentKey,
  departmentKey,
  findRules,
  type IndexedRule,
  type PolicyIndex,
  type ScopeIndex,
  WORKSPACE_KEY,
} from "./policy-index.ts";
import type { CompiledMandate, CompiledRule, EvaluatedMandate, Facts, PolicyResult } from "./types.ts";

/** The rules of one mandate that cover an action, in the mandate's order. */
export interface PlannedMandate {
  readonly mandate: CompiledMandate;
  readonly rules: readonly CompiledRule[];
  /** What is said of the mandate when none of them fires. */
  readonly idle: EvaluatedMandate;
}

/** Everything to evaluate for an action, by mandate id. */
export interface Plan {
  readonly mandates: readonly PlannedMandate[];
  /** Whether any of the rules is semantic. */
  readonly asksGuard: boolean;
  /** The whole result when no rule fires and no counter was read. */
  readonly idle: PolicyResult;
}

// Enough for the action types of a busy workspace; beyond it everything is forgotten and made again.
const MAX_PLANS = 4096;

/** Builds the function that finds an action's plan. It remembers plans, so an index MUST NOT change under it. */
export function createPlanner(index: PolicyIndex): (facts: Facts) => Plan {
  const known = new Map<string, Map<string, Map<string, Plan>>>();
  let count = 0;
  return (facts) => {
    const keys = scopeKeys(index, facts);
    const tool = facts.tool?.name ?? facts.toolName ?? "";
    const remembered = known.get(keys)?.get(tool)?.get(facts.actionType);
    if (remembered !== undefined) return remembered;
    if (++count > MAX_PLANS) {
      known.clear();
      count = 1;
    }
    const plan = createPlan(scopesOf(index, facts), tool, facts.actionType);
    remember(known, keys, tool, facts.actionType, plan);
    return plan;
  };
}

// Only scopes that have mandates are named, so that agents without mandates of their own share their plans.
function scopeKeys(index: PolicyIndex, facts: Facts): string {
  let keys = ownKeys(index, facts.agentId, facts.departmentIds);
  for (const principal of facts.principals ?? []) {
    keys += `\u0001${ownKeys(index, principal.agentId, principal.departmentIds)}`;
  }
  return keys;
}

function ownKeys(index: PolicyIndex, agentId: string, departmentIds: readonly string[]): string {
  let keys = index.has(agentKey(agentId)) ? agentKey(agentId) : "";
  for (const departmentId of departmentIds) {
    if (index.has(departmentKey(departmentId))) keys += `\u0000${departmentKey(departmentId)}`;
  }
  return keys;
}

function scopesOf(index: PolicyIndex, facts: Facts): readonly ScopeIndex[] {
  const agents = [facts, ...(facts.principals ?? [])];
  const keys = agents.flatMap((agent) => [agentKey(agent.agentId), ...agent.departmentIds.map(departmentKey)]);
  return [...new Set([WORKSPACE_KEY, ...keys])].map((key) => index.get(key)).filter((scope) => scope !== undefined);
}

function remember(
  known: Map<string, Map<string, Map<string, Plan>>>,
  keys: string,
  tool: string,
  actionType: string,
  plan: Plan,
): void {
  const byTool = known.get(keys) ?? new Map<string, Map<string, Plan>>();
  const byAction = byTool.get(tool) ?? new Map<string, Plan>();
  known.set(keys, byTool.set(tool, byAction.set(actionType, plan)));
}

function createPlan(scopes: readonly ScopeIndex[], tool: string, actionType: string): Plan {
  const found = new Map<CompiledMandate, Set<CompiledRule>>();
  const take = (rules: readonly IndexedRule[]): void => {
    for (const { mandate, rule } of rules) found.set(mandate, (found.get(mandate) ?? new Set()).add(rule));
  };
  for (const scope of scopes) findRules(scope, tool, actionType, take);
  const mandates = [...found]
    .map(([mandate, rules]): PlannedMandate => ({ mandate, rules: inOrder(rules), idle: { mandate } }))
    .sort((a, b) => (a.mandate.id < b.mandate.id ? -1 : 1));
  const evaluated = mandates.map((planned) => planned.idle);
  const asksGuard = mandates.some((planned) => planned.rules.some(({ semantic }) => semantic !== undefined));
  const idle = {
    decision: undefined,
    reasons: [],
    fired: [],
    evaluated,
    observed: [],
    collectiveLimits: [],
    guards: [],
  };
  return { mandates, asksGuard, idle };
}

function inOrder(rules: ReadonlySet<CompiledRule>): readonly CompiledRule[] {
  return [...rules].sort((a, b) => a.index - b.index);
}
