import type { NaiveAgent, NaiveBody, NaiveMandate, NaiveOutcome, NaiveRule, NaiveState, Word } from "./naive-log.ts";

const SEVERITY: Readonly<Record<Word, number>> = { allow: 1, escalate: 2, block: 3 };

const wordOf = (enumName: string): string => enumName.slice(enumName.indexOf("_") + 1).toLowerCase();
const typeOf = ({ action }: NaiveBody): string => action.action_type.trim().toLowerCase();

function matches(patterns: readonly string[], type: string): boolean {
  return patterns.some((given) => {
    const pattern = given.trim().toLowerCase();
    return pattern.endsWith("*") ? type.startsWith(pattern.slice(0, -1)) : type === pattern;
  });
}

function departmentsOf({ departments }: NaiveState, agentId: string): string[] {
  return [...departments].flatMap(([id, members]) => (members.has(agentId) ? [id] : [])).sort();
}

function covers({ definition }: NaiveMandate, state: NaiveState, agentId: string): boolean {
  if (definition.scope === "agent") return definition.agent_id === agentId;
  if (definition.scope === "workspace") return true;
  return departmentsOf(state, agentId).includes(definition.department_id ?? "");
}

interface Group {
  readonly scope: string;
  readonly group: string;
  readonly agentIds: ReadonlySet<string>;
}

/** Who is counted together; undefined for an agent to whom the limit of a named department does not apply. */
function groupOf({ conditions }: NaiveRule, state: NaiveState, agentId: string): Group | undefined {
  const scope = conditions.scope === undefined ? "agent" : conditions.scope.slice("SCOPE_".length).toLowerCase();
  const alone = { scope, group: agentId, agentIds: new Set([agentId]) };
  if (scope === "workspace") return { scope, group: state.workspaceId, agentIds: new Set(state.agents.keys()) };
  if (scope === "agent") return alone;
  const own = departmentsOf(state, agentId);
  const named = conditions.department_id;
  if (named !== undefined && !own.includes(named)) return undefined;
  const counted = named === undefined ? own : [named];
  if (counted.length === 0) return alone;
  const agentIds = new Set(counted.flatMap((id) => [...(state.departments.get(id) ?? [])]));
  return { scope, group: counted.join("+"), agentIds };
}

/** The state of a limit as the receipt shows it: entries with time > now - window, and this action. */
function limitOf(mandate: NaiveMandate, index: number, group: Group, state: NaiveState, now: number) {
  const { conditions } = mandate.definition.rules[index] as NaiveRule;
  const window = Number(conditions.window_seconds);
  const limit = Number(conditions.max_count ?? 0);
  const counted = (conditions.count_decisions ?? []).map(wordOf);
  const past = state.past.filter(
    ({ agentId, type, decision, at }) =>
      group.agentIds.has(agentId) &&
      matches(conditions.match_action_types ?? [], type) &&
      (counted.length === 0 || counted.includes(decision)) &&
      at > now - window * 1000,
  );
  const count = past.length + 1;
  return {
    ...{ count, group: group.group, limit, mandate_id: mandate.mandate_id, members: group.agentIds.size },
    ...{
      remaining: Math.max(0, limit - count),
      rule: `rules[${index}]`,
      scope: group.scope,
      source: "decision_log",
      window,
    },
  };
}

interface Fired {
  readonly mandate: NaiveMandate;
  readonly index: number;
  readonly decision: Word;
}

function mostRestrictive(fired: readonly Fired[]): Fired | undefined {
  return [...fired].sort(
    (a, b) =>
      SEVERITY[b.decision] - SEVERITY[a.decision] ||
      b.mandate.definition.priority - a.mandate.definition.priority ||
      (a.mandate.mandate_id < b.mandate.mandate_id ? -1 : 1),
  )[0];
}

/** The rules that fire, and the limits that were looked at on the way. */
function evaluate(state: NaiveState, body: NaiveBody, agent: NaiveAgent) {
  const { agent_id: agentId } = body.action;
  const limits: ReturnType<typeof limitOf>[] = [];
  const fired: Fired[] = [];
  const mandates = [...state.mandates.values()].sort((a, b) => (a.mandate_id < b.mandate_id ? -1 : 1));
  for (const mandate of mandates.filter((each) => covers(each, state, agentId))) {
    mandate.definition.rules.forEach((rule, index) => {
      const patterns = rule.conditions.match_action_types ?? [];
      if (patterns.length > 0 && !matches(patterns, typeOf(body))) return;
      const hit = { mandate, index, decision: wordOf(rule.decision) as Word };
      if (rule.type === "RULE_TYPE_ACTION") fired.push(hit);
      if (rule.type === "RULE_TYPE_TRUST" && agent.trustTenths / 10 < (rule.conditions.below ?? 0)) fired.push(hit);
      if (rule.type !== "RULE_TYPE_SEQUENCE") return;
      const group = groupOf(rule, state, agentId);
      if (group === undefined) return;
      const limit = limitOf(mandate, index, group, state, Date.parse(body.at));
      limits.push(limit);
      if (limit.count > limit.limit) fired.push(hit);
    });
  }
  return { limits, fired };
}

/** The strictest decision of each mandate that fired, by id. */
function strictestOf(fired: readonly Fired[]): Fired[] {
  const byMandate = Map.groupBy(fired, ({ mandate }) => mandate.mandate_id);
  return [...byMandate.values()].map((own) => mostRestrictive(own) as Fired);
}

const REFUSED = { decision: "block", policyName: undefined, limits: [], fired: [], observed: [] } as const;

/** What design §4 says of an action, approvals left out: straight from the text, on lists. */
export function decideNaively(state: NaiveState, body: NaiveBody): NaiveOutcome {
  const agent = state.agents.get(body.action.agent_id) as NaiveAgent;
  if (agent.status !== "active") return { ...REFUSED, path: "revoked", permissions: "not_evaluated" };
  if (matches(agent.denied, typeOf(body))) return { ...REFUSED, path: "permissions", permissions: "denied" };
  if (agent.listed.length > 0 && !matches(agent.listed, typeOf(body)))
    return { ...REFUSED, path: "permissions", permissions: "not_listed" };
  const { limits, fired } = evaluate(state, body, agent);
  const winner = mostRestrictive(fired.filter(({ mandate }) => mandate.definition.mode !== "observe"));
  const strictest = strictestOf(fired);
  const watching = strictest.filter(({ mandate }) => mandate.definition.mode === "observe");
  return {
    decision: winner?.decision ?? state.defaultDecision,
    path: winner === undefined ? "default" : "policy",
    permissions: "admitted",
    policyName: winner?.mandate.definition.name,
    limits,
    fired: strictest.map(({ mandate, decision }) => ({
      ...{ mandate_id: mandate.mandate_id, version: mandate.version, decision },
    })),
    observed: watching.map(({ mandate, decision }) => ({ mandate_id: mandate.mandate_id, would_decide: decision })),
  };
}
