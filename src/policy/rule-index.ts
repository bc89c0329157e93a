import { prefixOf } from "./action-patterns.ts";
import type { CompiledMandate, CompiledRule, EvaluationContext, Principal } from "./types.ts";

/** One rule in the index, with its mandate. */
interface IndexedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
}

type Rules = readonly IndexedRule[];

/** The rules of one scope and tool, by the action types they cover. */
interface ActionIndex {
  /** Rules that cover all action types. */
  readonly all: Rules;
  readonly exact: ReadonlyMap<string, Rules>;
  /** By the text before the first `*`: what follows it, and what is excluded, is looked at when a rule is found. */
  readonly prefixes: ReadonlyMap<string, Rules>;
  /** The distinct lengths of the prefixes. */
  readonly prefixLengths: readonly number[];
}

/** The rules of one scope by the tool they cover; `""` stands for rules without a tool. */
type ScopeIndex = ReadonlyMap<string, ActionIndex>;

/** The rules of one mandate that cover an action, in the mandate's order. */
export interface PlannedMandate {
  readonly mandate: CompiledMandate;
  readonly rules: readonly CompiledRule[];
}

/** Everything to evaluate for an action, by mandate id. */
export interface Plan {
  readonly mandates: readonly PlannedMandate[];
  /** True if any of the rules is semantic. */
  readonly asksGuard: boolean;
}

const WORKSPACE_KEY = "w";

function departmentKey(departmentId: string): string {
  return `d${departmentId}`;
}

function agentKey(agentId: string): string {
  return `a${agentId}`;
}

function scopeKey({ scope, agentId = "", departmentId = "" }: CompiledMandate): string {
  if (scope === "agent") return agentKey(agentId);
  return scope === "department" ? departmentKey(departmentId) : WORKSPACE_KEY;
}

/** The rules of a workspace by the scope of their mandate, the tool and the action types they cover. Immutable. */
export class RuleIndex {
  readonly #scopes: ReadonlyMap<string, ScopeIndex>;

  private constructor(scopes: ReadonlyMap<string, ScopeIndex>) {
    this.#scopes = scopes;
  }

  /** Indexes many mandates at once. */
  static of(mandates: Iterable<CompiledMandate>): RuleIndex {
    return new RuleIndex(indexScopes(mandates));
  }

  /** Returns the index with a mandate's rules added; shares the unchanged parts. */
  with(mandate: CompiledMandate): RuleIndex {
    const key = scopeKey(mandate);
    const added = indexScopes([mandate]).get(key);
    if (added === undefined || added.size === 0) return this;
    const scope = new Map(this.#scopes.get(key));
    for (const [tool, actions] of added) {
      const before = scope.get(tool);
      scope.set(tool, before === undefined ? actions : joined(before, actions));
    }
    return new RuleIndex(new Map(this.#scopes).set(key, scope));
  }

  /** Returns the index without a mandate's rules; shares the unchanged parts. */
  without(mandate: CompiledMandate): RuleIndex {
    const key = scopeKey(mandate);
    const scope = new Map(this.#scopes.get(key));
    for (const tool of new Set(mandate.rules.flatMap(toolsOf))) {
      const actions = scope.get(tool);
      const rest = actions && remaining(actions, mandate);
      if (rest === undefined) scope.delete(tool);
      else scope.set(tool, rest);
    }
    const scopes = new Map(this.#scopes);
    if (scope.size === 0) scopes.delete(key);
    else scopes.set(key, scope);
    return new RuleIndex(scopes);
  }

  /**
   * Lists the scopes of an action that have mandates. Scopes without mandates are left out, so that agents without mandates
   * of their own share their plans.
   */
  scopesOf(context: EvaluationContext): readonly string[] {
    const keysOf = ({ agentId, departmentIds }: Principal) => [agentKey(agentId), ...departmentIds.map(departmentKey)];
    const keys = new Set([WORKSPACE_KEY, ...keysOf(context), ...(context.principals ?? []).flatMap(keysOf)]);
    return [...keys].filter((key) => this.#scopes.has(key));
  }

  /** Collects the rules of some scopes that cover an action type and a tool; `""` is an action without a tool. */
  plan(scopes: readonly string[], tool: string, actionType: string): Plan {
    const found = new Map<CompiledMandate, Set<CompiledRule>>();
    for (const key of scopes) {
      for (const { mandate, rule } of coveringRules(this.#scopes.get(key) ?? new Map(), tool, actionType)) {
        found.set(mandate, (found.get(mandate) ?? new Set()).add(rule));
      }
    }
    const mandates = [...found]
      .map(([mandate, rules]) => ({ mandate, rules: [...rules].sort((a, b) => a.index - b.index) }))
      .sort((a, b) => (a.mandate.id < b.mandate.id ? -1 : 1));
    const asksGuard = mandates.some(({ rules }) => rules.some(({ semantic }) => semantic !== undefined));
    return { mandates, asksGuard };
  }
}

const toolsOf = ({ tools }: CompiledRule): readonly string[] => (tools.length === 0 ? [""] : tools);

/** Lists the rules of a scope that cover a call; a rule may come more than once. */
function coveringRules(scope: ScopeIndex, tool: string, actionType: string): Rules {
  const found: IndexedRule[] = [];
  for (const name of tool === "" ? [""] : ["", tool]) {
    const actions = scope.get(name);
    if (actions === undefined) continue;
    found.push(...actions.all, ...(actions.exact.get(actionType) ?? []));
    for (const length of actions.prefixLengths) {
      if (length <= actionType.length) found.push(...(actions.prefixes.get(actionType.slice(0, length)) ?? []));
    }
  }
  return found.filter(({ rule }) => rule.types.matches(actionType));
}

type ActionDraft = { all: IndexedRule[]; exact: Map<string, IndexedRule[]>; prefixes: Map<string, IndexedRule[]> };

function indexScopes(mandates: Iterable<CompiledMandate>): ReadonlyMap<string, ScopeIndex> {
  const drafts = new Map<string, Map<string, ActionDraft>>();
  for (const mandate of mandates) {
    const scope = getOrPut(drafts, scopeKey(mandate), () => new Map<string, ActionDraft>());
    for (const rule of mandate.rules) {
      for (const tool of toolsOf(rule)) {
        const draft = getOrPut(scope, tool, () => ({ all: [], exact: new Map(), prefixes: new Map() }));
        place(draft, { mandate, rule });
      }
    }
  }
  const scopes = new Map<string, ScopeIndex>();
  for (const [key, scope] of drafts) {
    const entries = [...scope].map(([tool, draft]) => [tool, withLengths(draft)] as const);
    scopes.set(key, new Map(entries));
  }
  return scopes;
}

function place(draft: ActionDraft, indexed: IndexedRule): void {
  const { actionTypes } = indexed.rule;
  if (actionTypes.length === 0) draft.all.push(indexed);
  for (const pattern of actionTypes) {
    const prefix = prefixOf(pattern);
    getOrPut(prefix === undefined ? draft.exact : draft.prefixes, prefix ?? pattern, () => []).push(indexed);
  }
}

function withLengths(actions: Omit<ActionIndex, "prefixLengths">): ActionIndex {
  return { ...actions, prefixLengths: [...new Set([...actions.prefixes.keys()].map((prefix) => prefix.length))] };
}

function joined(left: ActionIndex, right: ActionIndex): ActionIndex {
  return withLengths({
    all: [...left.all, ...right.all],
    exact: joinedMaps(left.exact, right.exact),
    prefixes: joinedMaps(left.prefixes, right.prefixes),
  });
}

function joinedMaps(left: ReadonlyMap<string, Rules>, right: ReadonlyMap<string, Rules>): ReadonlyMap<string, Rules> {
  const both = new Map(left);
  for (const [key, rules] of right) both.set(key, [...(both.get(key) ?? []), ...rules]);
  return both;
}

function remaining(actions: ActionIndex, mandate: CompiledMandate): ActionIndex | undefined {
  const keep = (rules: Rules): Rules => rules.filter((indexed) => indexed.mandate.id !== mandate.id);
  const all = keep(actions.all);
  const exact = new Map(actions.exact);
  const prefixes = new Map(actions.prefixes);
  for (const pattern of mandate.rules.flatMap((rule) => rule.actionTypes)) {
    const prefix = prefixOf(pattern);
    const [map, key] = prefix === undefined ? [exact, pattern] : [prefixes, prefix];
    const rest = keep(map.get(key) ?? []);
    if (rest.length === 0) map.delete(key);
    else map.set(key, rest);
  }
  const isEmpty = all.length === 0 && exact.size === 0 && prefixes.size === 0;
  return isEmpty ? undefined : withLengths({ all, exact, prefixes });
}

function getOrPut<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
