import type { CompiledMandate, CompiledRule } from "./types.ts";

/** One rule in the index, with its mandate. */
export interface IndexedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
}

type Rules = readonly IndexedRule[];

/** The rules of one scope and tool, by the action types they cover. */
interface ActionIndex {
  readonly any: Rules;
  readonly exact: ReadonlyMap<string, Rules>;
  /** By the text before `*`. */
  readonly prefixes: ReadonlyMap<string, Rules>;
  /** The lengths that prefixes have, each once. */
  readonly prefixLengths: readonly number[];
}

/** The rules of one scope by the tool they cover; `""` stands for rules without a tool. */
export type ScopeIndex = ReadonlyMap<string, ActionIndex>;

/** The rules of a workspace by the scope of their mandate, as `scopeKey` names it. Immutable. */
export type PolicyIndex = ReadonlyMap<string, ScopeIndex>;

/** The key of the mandates that hold for every agent. */
export const WORKSPACE_KEY = "w";

/** The key of the mandates of one department. */
export function departmentKey(departmentId: string): string {
  return `d${departmentId}`;
}

/** The key of the mandates of one agent. */
export function agentKey(agentId: string): string {
  return `a${agentId}`;
}

/** The key of a mandate's scope. */
export function scopeKey(mandate: CompiledMandate): string {
  if (mandate.scope === "agent") return agentKey(mandate.agentId ?? "");
  return mandate.scope === "department" ? departmentKey(mandate.departmentId ?? "") : WORKSPACE_KEY;
}

type ActionDraft = { any: IndexedRule[]; exact: Map<string, IndexedRule[]>; prefixes: Map<string, IndexedRule[]> };

/** Builds the index of many mandates at once. */
export function buildIndex(mandates: Iterable<CompiledMandate>): PolicyIndex {
  const scopes = new Map<string, Map<string, ActionDraft>>();
  for (const mandate of mandates) {
    const scope = getOrPut(scopes, scopeKey(mandate), () => new Map<string, ActionDraft>());
    for (const rule of mandate.rules) {
      const draft = getOrPut(scope, rule.tool ?? "", () => ({ any: [], exact: new Map(), prefixes: new Map() }));
      place(draft, { mandate, rule });
    }
  }
  const index = new Map<string, ScopeIndex>();
  for (const [key, scope] of scopes) {
    index.set(
      key,
      new Map([...scope].map(([tool, draft]) => [tool, { ...draft, prefixLengths: lengthsOf(draft.prefixes) }])),
    );
  }
  return index;
}

/** The index with a mandate's rules added; shares everything that it does not touch. */
export function indexWith(index: PolicyIndex, mandate: CompiledMandate): PolicyIndex {
  const added = buildIndex([mandate]).get(scopeKey(mandate));
  if (added === undefined || added.size === 0) return index;
  const scope = new Map(index.get(scopeKey(mandate)));
  for (const [tool, actions] of added) {
    const before = scope.get(tool);
    scope.set(tool, before === undefined ? actions : joined(before, actions));
  }
  return new Map(index).set(scopeKey(mandate), scope);
}

/** The index without a mandate's rules; shares everything that it does not touch. */
export function indexWithout(index: PolicyIndex, mandate: CompiledMandate): PolicyIndex {
  const scope = new Map(index.get(scopeKey(mandate)));
  for (const tool of new Set(mandate.rules.map((rule) => rule.tool ?? ""))) {
    const actions = scope.get(tool);
    const left = actions && remaining(actions, mandate);
    if (left === undefined) scope.delete(tool);
    else scope.set(tool, left);
  }
  const without = new Map(index);
  if (scope.size === 0) without.delete(scopeKey(mandate));
  else without.set(scopeKey(mandate), scope);
  return without;
}

/** Hands every rule of a scope that covers a call of a tool and action type to `take`; a rule may come more than once. */
export function findRules(scope: ScopeIndex, tool: string, actionType: string, take: (rules: Rules) => void): void {
  for (const name of tool === "" ? [""] : ["", tool]) {
    const actions = scope.get(name);
    if (actions === undefined) continue;
    take(actions.any);
    take(actions.exact.get(actionType) ?? []);
    for (const length of actions.prefixLengths) {
      if (length <= actionType.length) take(actions.prefixes.get(actionType.slice(0, length)) ?? []);
    }
  }
}

function place(draft: ActionDraft, indexed: IndexedRule): void {
  const { actionTypes } = indexed.rule;
  if (actionTypes.length === 0) draft.any.push(indexed);
  for (const pattern of actionTypes) {
    const isPrefix = pattern.endsWith("*");
    const key = isPrefix ? pattern.slice(0, -1) : pattern;
    getOrPut(isPrefix ? draft.prefixes : draft.exact, key, () => []).push(indexed);
  }
}

function joined(left: ActionIndex, right: ActionIndex): ActionIndex {
  const prefixes = joinedMaps(left.prefixes, right.prefixes);
  return {
    any: [...left.any, ...right.any],
    exact: joinedMaps(left.exact, right.exact),
    prefixes,
    prefixLengths: lengthsOf(prefixes),
  };
}

function joinedMaps(left: ReadonlyMap<string, Rules>, right: ReadonlyMap<string, Rules>): ReadonlyMap<string, Rules> {
  const both = new Map(left);
  for (const [key, rules] of right) both.set(key, [...(both.get(key) ?? []), ...rules]);
  return both;
}

function remaining(actions: ActionIndex, mandate: CompiledMandate): ActionIndex | undefined {
  const keep = (rules: Rules): Rules => rules.filter((indexed) => indexed.mandate.id !== mandate.id);
  const patterns = mandate.rules.flatMap((rule) => rule.actionTypes);
  const any = keep(actions.any);
  const exact = new Map(actions.exact);
  const prefixes = new Map(actions.prefixes);
  for (const pattern of patterns) {
    const [map, key] = pattern.endsWith("*") ? [prefixes, pattern.slice(0, -1)] : [exact, pattern];
    const left = keep(map.get(key) ?? []);
    if (left.length === 0) map.delete(key);
    else map.set(key, left);
  }
  if (any.length === 0 && exact.size === 0 && prefixes.size === 0) return undefined;
  return { any, exact, prefixes, prefixLengths: lengthsOf(prefixes) };
}

function lengthsOf(prefixes: ReadonlyMap<string, Rules>): readonly number[] {
  return [...new Set([...prefixes.keys()].map((prefix) => prefix.length))];
}

function getOrPut<V>(map: Map<string, V>, key: string, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
