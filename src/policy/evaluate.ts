import { createHash } from "node:crypto";
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import { type CheckSizes, takesLong } from "./checks.ts";
import { isJsonObject, ownValue } from "./json-value.ts";
import { toolKey } from "./names.ts";
import type {
  ArgumentChange,
  CompiledMandate,
  CompiledRule,
  CompiledVelocity,
  CounterReading,
  Decision,
  EvaluationContext,
  Finding,
  FiredMandate,
  GuardAnswer,
  GuardFinding,
  LimitState,
  ObservedMandate,
  PolicyReason,
  PolicyResult,
  PolicySet,
  Principal,
} from "./types.ts";

/**
 * Size of the plans kept per set, in characters of their keys and rules. They are kept because collecting and sorting rules takes
 * longer than evaluating them. One per tool, action type and combination of scopes in use.
 */
const MAX_PLANS_SIZE = 2_097_152;
/** Counted for each mandate and rule of a plan: a reference and its object. */
const PLANNED_SIZE = 32;

/**
 * Builds the set of mandates in force; of two with one id the later stays. The cost of a decision does not depend on
 * mandates for other agents, departments, tools or action types.
 */
export function createPolicySet(mandates: Iterable<CompiledMandate>): PolicySet {
  const byId = new Map<string, CompiledMandate>();
  for (const mandate of mandates) byId.set(mandate.id, mandate);
  return new IndexedMandates(byId, RuleIndex.of(byId.values()));
}

class IndexedMandates implements PolicySet {
  readonly #byId: ReadonlyMap<string, CompiledMandate>;
  readonly #index: RuleIndex;
  readonly #plans = new LRUCache<string, Plan>({
    maxSize: MAX_PLANS_SIZE,
    sizeCalculation: ({ mandates }, key) =>
      mandates.reduce((sum, { rules }) => sum + PLANNED_SIZE * (1 + rules.length), key.length + PLANNED_SIZE),
  });
  #asksGuard: boolean | undefined;
  #sizes: CheckSizes | undefined;
  #digest: string | undefined;

  constructor(byId: ReadonlyMap<string, CompiledMandate>, index: RuleIndex) {
    this.#byId = byId;
    this.#index = index;
  }

  get asksGuard(): boolean {
    this.#asksGuard ??= [...this.#byId.values()].some(({ rules }) =>
      rules.some(({ semantic }) => semantic !== undefined),
    );
    return this.#asksGuard;
  }

  mayTakeLong(textLength: number): boolean {
    this.#sizes ??= sizesOf(this.#byId.values());
    return takesLong(this.#sizes, textLength);
  }

  get digest(): string {
    this.#digest ??= policyDigest(this.#byId.values());
    return this.#digest;
  }

  mandates(): Iterable<CompiledMandate> {
    return this.#byId.values();
  }

  with(mandate: CompiledMandate): PolicySet {
    const before = this.#byId.get(mandate.id);
    const base = before === undefined ? this.#index : this.#index.without(before);
    return new IndexedMandates(new Map(this.#byId).set(mandate.id, mandate), base.with(mandate));
  }

  without(id: string): PolicySet {
    const mandate = this.#byId.get(id);
    if (mandate === undefined) return this;
    const rest = new Map(this.#byId);
    rest.delete(id);
    return new IndexedMandates(rest, this.#index.without(mandate));
  }

  evaluate(context: EvaluationContext): PolicyResult {
    return evaluate(this.#planFor(context), context);
  }

  #planFor(context: EvaluationContext): Plan {
    const scopes = this.#index.scopesOf(context);
    const tool = toolKey(context.tool?.name ?? context.toolName ?? "");
    const key = JSON.stringify([...scopes, tool, context.actionType]);
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    const plan = this.#index.plan(scopes, tool, context.actionType);
    this.#plans.set(key, plan);
    return plan;
  }
}

function sizesOf(mandates: Iterable<CompiledMandate>): CheckSizes {
  const sizes = { patterns: 0, schemas: 0, largestSchema: 0 };
  for (const { rules } of mandates) {
    for (const { patternSize, schemaSize } of rules) {
      sizes.patterns += patternSize;
      sizes.schemas += schemaSize;
      sizes.largestSchema = Math.max(sizes.largestSchema, schemaSize);
    }
  }
  return sizes;
}

/** Returns the digest of the policy set that mandates make; see `PolicySet.digest`. */
export function policyDigest(mandates: Iterable<Pick<CompiledMandate, "id" | "version" | "digest">>): string {
  const sorted = [...mandates].sort((a, b) => (a.id < b.id ? -1 : 1));
  // Lists of strings and whole numbers: the text of JSON.stringify is already the RFC 8785 text.
  const text = JSON.stringify(sorted.map(({ id, version, digest }) => [id, version, digest]));
  return createHash("sha256").update(text).digest("hex");
}

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
  /** By the text before `*`. */
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
    for (const tool of new Set(mandate.rules.map((rule) => rule.tool ?? ""))) {
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
  return found;
}

type ActionDraft = { all: IndexedRule[]; exact: Map<string, IndexedRule[]>; prefixes: Map<string, IndexedRule[]> };

function indexScopes(mandates: Iterable<CompiledMandate>): ReadonlyMap<string, ScopeIndex> {
  const drafts = new Map<string, Map<string, ActionDraft>>();
  for (const mandate of mandates) {
    const scope = getOrPut(drafts, scopeKey(mandate), () => new Map<string, ActionDraft>());
    for (const rule of mandate.rules) {
      const draft = getOrPut(scope, rule.tool ?? "", () => ({ all: [], exact: new Map(), prefixes: new Map() }));
      place(draft, { mandate, rule });
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
    const isPrefix = pattern.endsWith("*");
    const key = isPrefix ? pattern.slice(0, -1) : pattern;
    getOrPut(isPrefix ? draft.prefixes : draft.exact, key, () => []).push(indexed);
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
    const [map, key] = pattern.endsWith("*") ? [prefixes, pattern.slice(0, -1)] : [exact, pattern];
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

/** A rule that fired, with its mandate. */
interface FiredRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly decision: Decision;
  /** What was found, the most decisive first. */
  readonly findings: readonly Finding[];
}

/** Everything that evaluation collects, in the order of mandate id and rule. */
interface Collected {
  /** Rules of enforcing mandates. */
  readonly rules: FiredRule[];
  readonly fired: FiredMandate[];
  readonly observed: ObservedMandate[];
  readonly collectiveLimits: LimitState[];
  readonly guards: GuardFinding[];
}

/** Predicate on rules that evaluation skips. */
type Skips = (rule: CompiledRule) => boolean;

/** Restrictiveness of a decision; the higher one wins. */
export const SEVERITY: Readonly<Record<Decision, number>> = { allow: 1, escalate: 2, block: 3 };

/** Values that are tried for all reasons of one action, to say what would have passed. */
const MAX_TRIES = 12;
/** Conditions that are compared in all of these tries. */
const MAX_TRIED_CONDITIONS = 6_000;
/** Reasons after which those of a further rule are left out. */
const MAX_REASONS = 200;

/** Stands in for the answer to a question that was not asked: the rule came into force while the action waited. */
const NOT_ASKED: GuardAnswer = { kind: "unavailable", cause: "not_asked", latencyMs: 0 };

/** Evaluates every rule of a plan and joins their decisions. */
export function evaluate(plan: Plan, context: EvaluationContext): PolicyResult {
  const { rules, ...collected } = collect(plan, context, plan.asksGuard ? skippable(plan, context) : skipsNone);
  const sorted = rules.sort(byWeight);
  const [winner] = sorted;
  const missingChecks = [...context.checks.missing];
  if (winner === undefined) return { decision: undefined, reasons: [], missingChecks, ...collected };
  const { decision, mandate, rule } = winner;
  const passes = decision === "allow" || plan.asksGuard ? NONE_PASSES : createPassTest(plan, context);
  const reasons: PolicyReason[] = [];
  for (const fired of sorted) {
    if (reasons.length >= MAX_REASONS) break;
    reasons.push(...reasonsFrom(fired, passes));
  }
  return { decision, winner: { mandate, rule }, reasons, missingChecks, ...collected };
}

/** Tests that an action is allowed once one argument is changed. */
type PassTest = (change: ArgumentChange) => boolean;

const NONE_PASSES: PassTest = () => false;

/** Creates the test for one action: it decides the action with each of the values. Past a number of tries nothing passes. */
function createPassTest(plan: Plan, context: EvaluationContext): PassTest {
  const conditions = plan.mandates.flatMap(({ rules }) =>
    rules.map(({ source }) => source.conditions?.rules.length ?? 0),
  );
  const all = conditions.reduce((sum, count) => sum + count, 1);
  const maxTries = Math.min(MAX_TRIES, Math.floor(MAX_TRIED_CONDITIONS / all));
  let tries = 0;
  const isAllowed = (changed: EvaluationContext | undefined): boolean => {
    if (changed === undefined || ++tries > maxTries) return false;
    const [strictest] = collect(plan, changed, skipsNone).rules.sort(byWeight);
    return (strictest?.decision ?? context.defaultDecision ?? "allow") === "allow";
  };
  return ({ path, values }) => values.every((value) => isAllowed(withArgument(context, path, value)));
}

/** Returns the context of the same action with another value of one argument; undefined if the way to it is blocked. */
function withArgument(context: EvaluationContext, path: readonly string[], value: JsonValue) {
  const { arguments: args, metadata } = context;
  const changed = withMember(args ?? {}, path, value);
  if (changed === undefined) return undefined;
  if (args === metadata) return { ...context, arguments: changed, metadata: changed };
  return { ...context, arguments: changed, metadata: { ...metadata, arguments: changed } };
}

function withMember(
  object: JsonObject,
  [name = "", ...rest]: readonly string[],
  value: JsonValue,
): JsonObject | undefined {
  if (rest.length === 0) return { ...object, [name]: value };
  const inner = ownValue(object, name) ?? {};
  const changed = isJsonObject(inner) ? withMember(inner, rest, value) : undefined;
  return changed && { ...object, [name]: changed };
}

function reasonsFrom({ mandate, findings }: FiredRule, passes: PassTest): PolicyReason[] {
  return findings.map(({ code, message, rule, argument, change }) => ({
    ...{ code, message, rule },
    ...(argument === undefined ? {} : { argument }),
    ...{ mandateId: mandate.id, mandateName: mandate.name },
    ...(change !== undefined && passes(change) ? { wouldPass: `would allow at ${change.text}` } : {}),
  }));
}

const skipsNone: Skips = () => false;

/** Skips unanswered semantic rules if deterministic rules block: no answer would change the decision. */
function skippable(plan: Plan, context: EvaluationContext): Skips {
  const { rules } = collect(plan, context, ({ semantic }) => semantic !== undefined);
  if (rules.every(({ decision }) => decision !== "block")) return skipsNone;
  return ({ semantic }) => semantic !== undefined && context.guardAnswerFor?.(semantic) === undefined;
}

function collect(plan: Plan, context: EvaluationContext, skips: Skips): Collected {
  const collected = { rules: [], fired: [], observed: [], collectiveLimits: [], guards: [] };
  for (const planned of plan.mandates) evaluateMandate(planned, context, skips, collected);
  return collected;
}

function evaluateMandate(
  { mandate, rules }: PlannedMandate,
  context: EvaluationContext,
  skips: Skips,
  collected: Collected,
): void {
  const fired: FiredRule[] = [];
  for (const rule of rules) {
    if (!coversAgent(rule, context) || skips(rule)) continue;
    const finding = checkRule(mandate, rule, context, collected);
    if (finding !== undefined) fired.push(firedRule(mandate, rule, finding));
  }
  const decision = fired.sort(byWeight)[0]?.decision;
  if (decision === undefined) return;
  if (mandate.mode === "observe") {
    const reasons = fired.flatMap((each) => reasonsFrom(each, NONE_PASSES)).slice(0, MAX_REASONS);
    collected.observed.push({ mandate, decision, reasons });
  } else {
    collected.fired.push({ mandate, decision });
    collected.rules.push(...fired);
  }
}

/** Keeps a sequence rule on one department to the members of that department. */
function coversAgent({ velocity, ordered }: CompiledRule, { departmentIds }: EvaluationContext): boolean {
  const departmentId = velocity?.counter.departmentId ?? ordered?.departmentId;
  return departmentId === undefined || departmentIds.includes(departmentId);
}

/** Checks one rule with its counter and its guard's answer, and notes both. */
function checkRule(
  mandate: CompiledMandate,
  rule: CompiledRule,
  context: EvaluationContext,
  { collectiveLimits, guards }: Collected,
): Finding | undefined {
  const { velocity, semantic } = rule;
  if (velocity !== undefined) {
    const reading = context.counterValue(velocity.counter);
    collectiveLimits.push({ ...limitState(velocity, reading), mandateId: mandate.id, rule: rule.path });
    return rule.check(context, reading);
  }
  if (semantic === undefined) return rule.check(context);
  const answer = context.guardAnswerFor?.(semantic) ?? NOT_ASKED;
  guards.push({ mandateId: mandate.id, version: mandate.version, rule: rule.path, spec: semantic, answer });
  return rule.check(context, undefined, answer);
}

function firedRule(mandate: CompiledMandate, rule: CompiledRule, finding: Finding): FiredRule {
  const { decision = rule.decision, others = [] } = finding;
  return { mandate, rule, decision, findings: [finding, ...others] };
}

// INVARIANT: a total order, so that the result does not depend on the order in which mandates were published.
function byWeight(a: FiredRule, b: FiredRule): number {
  return (
    SEVERITY[b.decision] - SEVERITY[a.decision] ||
    b.mandate.priority - a.mandate.priority ||
    (a.mandate.id < b.mandate.id ? -1 : a.mandate.id > b.mandate.id ? 1 : a.rule.index - b.rule.index)
  );
}

function limitState({ counter, maxCount, windowSeconds }: CompiledVelocity, reading: CounterReading) {
  return {
    scope: counter.scope,
    group: reading.group,
    members: reading.members,
    count: reading.count,
    limit: maxCount,
    window: windowSeconds,
    remaining: Math.max(0, maxCount - reading.count),
    source: reading.source,
  };
}
