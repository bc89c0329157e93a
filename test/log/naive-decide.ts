import { naiveResetsAt } from "../../src/dryrun/naive/naive-limits.ts";
import { type Lent, lentTo } from "./naive-authority.ts";
import { budgetOf, budgetResetsAt, isBudget, paidInto } from "./naive-budgets.ts";
import { admittingIn, contractedBy } from "./naive-contract.ts";
import type {
  NaiveAgent,
  NaiveBody,
  NaiveMandate,
  NaiveOutcome,
  NaivePast,
  NaiveRule,
  NaiveState,
  Word,
} from "./naive-log.ts";
import { hasHappenedInOrder, isScheduled, matches } from "./naive-rules.ts";

const SEVERITY: Readonly<Record<Word, number>> = { allow: 1, escalate: 2, block: 3 };

const isOrdered = ({ conditions }: NaiveRule): boolean => conditions.mode === "SEQUENCE_MODE_ORDERED";

const isEnforced = ({ definition }: NaiveMandate): boolean => definition.mode !== "observe";
const wordOf = (enumName: string): string => enumName.slice(enumName.indexOf("_") + 1).toLowerCase();
const typeOf = ({ action }: NaiveBody): string => action.action_type.trim().toLowerCase();

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

/** The agents that are counted together; undefined if the limit of a named department does not apply to the agent. */
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

/** The agents that a limit counts an action for: of the actor and the principal those that the mandate covers, else the actor. */
function countedFor(mandate: NaiveMandate, state: NaiveState, agentId: string, principalId: string | undefined) {
  const parties = [...new Set([agentId, principalId ?? agentId])];
  const covered = parties.filter((party) => covers(mandate, state, party));
  return covered.length === 0 ? [agentId] : covered;
}

/** The past decisions that a sequence rule may count, in order: those with time > now - window. */
function pastOf({ conditions }: NaiveRule, state: NaiveState, now: number): NaivePast[] {
  const counted = (conditions.count_decisions ?? []).map(wordOf);
  const since = now - Number(conditions.window_seconds) * 1000;
  // The times of a log never go back.
  const inside = state.past.slice(state.past.findLastIndex(({ at }) => at <= since) + 1);
  return inside.filter(({ decision }) => counted.length === 0 || counted.includes(decision));
}

/** A limit or a budget as a decision sees it. */
export type NaiveLimit = ReturnType<typeof limitOf> | ReturnType<typeof budgetLimitOf>;

/** Where a limit is shown. */
function placeOf(mandate: NaiveMandate, index: number, { scope, group, agentIds }: Group) {
  const window = Number(mandate.definition.rules[index]?.conditions.window_seconds);
  const place = { mandate_id: mandate.mandate_id, rule: `rules[${index}]`, scope, group };
  return { ...place, members: agentIds.size, source: "decision_log", window };
}

const isOf =
  ({ agentIds }: Group) =>
  ({ agentId, principalId = agentId }: Pick<NaivePast, "agentId" | "principalId">): boolean =>
    agentIds.has(agentId) || agentIds.has(principalId);

/** The state of a budget as the receipt shows it: allowed actions with time > now - window, and this action. */
function budgetLimitOf(
  mandate: NaiveMandate,
  index: number,
  group: Group,
  state: NaiveState,
  now: number,
  paid: number,
) {
  const rule = mandate.definition.rules[index] as NaiveRule;
  const read = budgetOf(rule, state, isOf(group), now, paid);
  return {
    kind: "budget",
    isOver: read.isOver,
    shown: { ...placeOf(mandate, index, group), budget: read.budget },
    resetsAt: (decision: Word) => budgetResetsAt(rule, read, decision, now),
  } as const;
}

/** The state of a limit as the receipt shows it, and what it counts: entries with time > now - window, and this action. */
function limitOf(mandate: NaiveMandate, index: number, group: Group, state: NaiveState, now: number) {
  const rule = mandate.definition.rules[index] as NaiveRule;
  const { conditions } = rule;
  const limit = Number(conditions.max_count ?? 0);
  const past = pastOf(rule, state, now)
    .filter(isOf(group))
    .filter(({ type }) => matches(conditions.match_action_types ?? [], type));
  const count = past.length + 1;
  const shown = { ...placeOf(mandate, index, group), count, limit, remaining: Math.max(0, limit - count) };
  return {
    kind: "velocity",
    isOver: count > limit,
    shown,
    times: past.map(({ at }) => at),
    counts: (decision: Word): boolean =>
      (conditions.count_decisions ?? []).length === 0 ||
      (conditions.count_decisions ?? []).map(wordOf).includes(decision),
  } as const;
}

/** A limit as the receipt of a decision shows it: if it is reached, with when one more, or the same amount, fits. */
export function shownLimit(state: NaiveLimit, decision: Word, now: number): object {
  if (state.kind === "budget") {
    const resets_at = state.resetsAt(decision);
    return { ...state.shown, ...(resets_at !== undefined && { resets_at }) };
  }
  if (state.shown.remaining > 0) return state.shown;
  const { shown: limit, times, counts } = state;
  const actions = [...times, ...(counts(decision) ? [now] : [])].map((atMs) => ({ atMs, count: 1 }));
  const resets = naiveResetsAt({ maxCount: limit.limit, windowMs: limit.window * 1000, actions }, now);
  return resets === undefined ? limit : { ...limit, resets_at: new Date(resets).toISOString() };
}

type LentAuthority = Exclude<Lent, { readonly code: string }>;

interface Fired {
  readonly mandate: NaiveMandate;
  readonly index: number;
  readonly decision: Word;
  readonly code: string;
}

const inOrder = (one: string, other: string): number => Number(one > other) - Number(one < other);
const foldedName = ({ definition }: NaiveMandate): string => definition.name.normalize("NFKC").trim().toLowerCase();

const byWeight = (a: Fired, b: Fired): number =>
  SEVERITY[b.decision] - SEVERITY[a.decision] ||
  b.mandate.definition.priority - a.mandate.definition.priority ||
  inOrder(foldedName(a.mandate), foldedName(b.mandate)) ||
  a.mandate.mandate_id.localeCompare(b.mandate.mandate_id) ||
  a.index - b.index;

const CODES: Readonly<Record<string, string>> = {
  RULE_TYPE_ACTION: "ACTION_MATCHED",
  RULE_TYPE_TRUST: "TRUST_BELOW",
  RULE_TYPE_SCHEDULE: "IN_SCHEDULE",
  RULE_TYPE_SEQUENCE: "LIMIT_EXCEEDED",
};

/** The rules that fire, and the limits that were looked at on the way. */
function evaluate(
  state: NaiveState,
  body: NaiveBody,
  agent: NaiveAgent,
  { principalId, lenders }: Pick<LentAuthority, "principalId" | "lenders">,
) {
  const { agent_id: agentId } = body.action;
  const now = Date.parse(body.at);
  const limits: NaiveLimit[] = [];
  const fired: Fired[] = [];
  const asked: Fired[] = [];
  const mandates = [...state.mandates.values()].sort((a, b) => a.mandate_id.localeCompare(b.mandate_id));
  const parties = [agentId, ...lenders];
  for (const mandate of mandates.filter((each) => parties.some((party) => covers(each, state, party)))) {
    mandate.definition.rules.forEach((rule, index) => {
      const { match_action_types = [], steps = [] } = rule.conditions;
      const patterns = isOrdered(rule) ? steps.slice(-1) : match_action_types;
      if (patterns.length > 0 && !matches(patterns, typeOf(body))) return;
      const code = CODES[rule.type] ?? "";
      const hit = { mandate, index, decision: wordOf(rule.decision) as Word, code };
      if (rule.type === "RULE_TYPE_ACTION") fired.push(hit);
      if (rule.type === "RULE_TYPE_TRUST" && agent.trustTenths / 10 < (rule.conditions.below ?? 0)) fired.push(hit);
      if (rule.type === "RULE_TYPE_SCHEDULE" && isScheduled(rule, now)) fired.push(hit);
      if (rule.type === "RULE_TYPE_SEMANTIC") asked.push(hit);
      if (rule.type !== "RULE_TYPE_SEQUENCE") return;
      if (isOrdered(rule)) {
        const group = groupOf(rule, state, agentId);
        const past = pastOf(rule, state, now).filter((each) => group?.agentIds.has(each.agentId));
        if (group !== undefined && hasHappenedInOrder(rule, past)) fired.push({ ...hit, code: "SEQUENCE_COMPLETED" });
        return;
      }
      const paid = isBudget(rule) ? paidInto(rule, body) : undefined;
      if (isBudget(rule) && paid === undefined) return;
      const groups = countedFor(mandate, state, agentId, principalId).map((party) => groupOf(rule, state, party));
      const distinct = new Map(groups.flatMap((group) => (group === undefined ? [] : [[group.group, group] as const])));
      const own = [...distinct.values()].map((group) =>
        paid === undefined
          ? limitOf(mandate, index, group, state, now)
          : budgetLimitOf(mandate, index, group, state, now, paid),
      );
      limits.push(...own);
      if (own.some(({ isOver }) => isOver)) fired.push(paid === undefined ? hit : { ...hit, code: "BUDGET_EXCEEDED" });
    });
  }
  return { limits, fired, guards: guardsOf(asked, fired, body) };
}

/**
 * The semantic rules that are looked at, none of which has a verdict, since there is no guard: all of them, unless the other
 * rules block already; then those that were asked about before the others did, which only the body tells.
 */
function guardsOf(asked: readonly Fired[], fired: Fired[], { guards = [] }: NaiveBody) {
  const wasAsked = ({ mandate, index }: Fired): boolean =>
    guards.some(({ mandate_id, rule }) => mandate_id === mandate.mandate_id && rule === `rules[${index}]`);
  const isBlocked = fired.some(({ mandate, decision }) => isEnforced(mandate) && decision === "block");
  const looked = isBlocked ? asked.filter(wasAsked) : asked;
  for (const { mandate, index } of looked) {
    const { on_unavailable } = (mandate.definition.rules[index] as NaiveRule).conditions;
    const decision = on_unavailable === undefined ? "escalate" : (wordOf(on_unavailable) as Word);
    if (decision !== "allow") fired.push({ mandate, index, decision, code: "GUARD_UNAVAILABLE" });
  }
  return looked.map(({ mandate: { mandate_id, version }, index }) => ({
    mandate_id,
    version,
    rule: `rules[${index}]`,
  }));
}

/** Groups the rules that fired by mandate, sorted by id; in each group the most restrictive first. */
function byMandate(fired: readonly Fired[]): [Fired, ...Fired[]][] {
  const groups = [...Map.groupBy(fired, ({ mandate }) => mandate.mandate_id)];
  groups.sort(([one], [other]) => one.localeCompare(other));
  return groups.map(([, own]) => own.sort(byWeight) as [Fired, ...Fired[]]);
}

const codesOf = (fired: readonly Fired[]): string[] => fired.map(({ code }) => code);

/** Result of an action that an early step refuses. */
const refused = (path: string, permissions: string, code: string): NaiveOutcome => ({
  decision: "block",
  path,
  permissions,
  codes: [code],
  policyName: undefined,
  limits: [],
  guards: [],
  fired: [],
  observed: [],
  authority: [],
  contracts: [],
});

/** Decides an action as design §4 says, without approvals: straight from the text, on lists. */
export function decideNaively(state: NaiveState, body: NaiveBody): NaiveOutcome {
  const agent = state.agents.get(body.action.agent_id) as NaiveAgent;
  if (agent.status !== "active") return refused("revoked", "not_evaluated", "AGENT_REVOKED");
  const lent = lentTo(state, body);
  if ("code" in lent) return refused(lent.path, "not_evaluated", lent.code);
  if (body.session_id !== undefined && state.sessions.get(body.session_id) !== body.action.agent_id)
    return refused("session", "not_evaluated", "SESSION_UNKNOWN");
  const { principal = agent, lenders, chain } = lent;
  const required = new Set(
    [agent, ...lenders.flatMap((id) => state.agents.get(id) ?? [])].flatMap((each) => each.requires),
  );
  if (required.has("session") && body.session_id === undefined)
    return refused("session", "not_evaluated", "SESSION_REQUIRED");
  if (required.has("prompt") && !state.prompted.has(body.session_id ?? ""))
    return refused("session", "not_evaluated", "PROMPT_REQUIRED");
  const denied = lenders.flatMap((id) => state.agents.get(id)?.denied ?? []);
  if (matches([...agent.denied, ...denied], typeOf(body))) return refused("permissions", "denied", "ACTION_DENIED");
  if (principal.listed.length > 0 && !matches(principal.listed, typeOf(body)))
    return refused("permissions", "not_listed", "ACTION_NOT_ALLOWED");
  const contracted = contractedBy(state, body);
  if ("code" in contracted) return refused("intent_contract", "admitted", contracted.code);
  const { covering, asks } = contracted;
  const isCovered = covering.some(
    ({ by_agent }) => by_agent === undefined || state.settings.prompt_from !== "operator",
  );
  if (required.has("contract") && !isCovered) return refused("intent_contract", "admitted", "CONTRACT_REQUIRED");
  const { limits, fired, guards } = evaluate(state, body, agent, lent);
  const enforced = fired.filter(({ mandate }) => isEnforced(mandate)).sort(byWeight);
  const [winner] = enforced;
  const observed = fired.filter(({ mandate }) => !isEnforced(mandate));
  const mandated: NaiveOutcome = {
    decision: winner?.decision ?? state.settings.default_decision,
    path: winner === undefined ? "default" : "policy",
    codes: winner === undefined ? ["DEFAULT"] : codesOf(enforced),
    permissions: "admitted",
    policyName: winner?.mandate.definition.name,
    ttlSeconds: winner?.mandate.definition.rules[winner.index]?.escalation_ttl_seconds,
    limits,
    guards,
    fired: byMandate(fired.filter(({ mandate }) => isEnforced(mandate))).map(([{ mandate, decision }]) => ({
      mandate_id: mandate.mandate_id,
      version: mandate.version,
      decision,
    })),
    observed: byMandate(observed).map(([first, ...rest]) => ({
      mandate_id: first.mandate.mandate_id,
      would_decide: first.decision,
      codes: codesOf([first, ...rest]),
    })),
    authority: [...chain.map(({ id }) => id), ...admittingIn(covering)],
    contracts: covering,
  };
  if (asks === 0) return mandated;
  // A person is asked first; the mandates are sealed once the action is approved.
  return {
    ...refused("intent_contract", "admitted", "OUTSIDE_CONTRACT"),
    decision: "escalate",
    codes: Array<string>(asks).fill("OUTSIDE_CONTRACT"),
    authority: mandated.authority,
    contracts: covering,
    afterApproval: mandated,
  };
}
