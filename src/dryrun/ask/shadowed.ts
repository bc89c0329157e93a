import { type Conditions, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type { Work } from "../../async/work.ts";
import { coversPattern } from "../../policy/action-patterns.ts";
import type { CompiledBudget } from "../../policy/budget.ts";
import { compareMandates, SEVERITY } from "../../policy/severity.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompiledVelocity,
  CounterSpec,
  OrderedSpec,
  ToolLookup,
} from "../../policy/types.ts";
import { counted, type Evidence, evidenceOf, type Findings, quoted, sentence } from "./answer.ts";
import { type ComparedConditions, comparedConditions, conditionsImply } from "./implication.ts";
import { decisionsOf, ruleText, VERBS } from "./rule-text.ts";

/** Maximum number of comparisons of two rules or conditions in one answer: a second of work. */
const MAX_COMPARISONS = 2_000_000;
/** Maximum number of rules that the text names; the evidence has more. */
const MAX_SAID = 5;

/** A rule of an enforcing mandate, ready to be compared. */
interface ComparedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly conditions: ComparedConditions | undefined;
  /** Severity of the strictest decision that the rule may make. */
  readonly strictest: number;
}

/** A rule that is proved never to decide, with one that always decides in its place. */
export interface ShadowedRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly by: { readonly mandate: CompiledMandate; readonly rule: CompiledRule };
}

/** The shadowed rules that were found; `compared` of `total` rules were compared with all others that could shadow them. */
export interface ShadowedRules {
  readonly found: readonly ShadowedRule[];
  readonly compared: number;
  readonly total: number;
}

/** Answers which rules in force are shadowed. */
export function* shadowedAnswer(mandates: Iterable<CompiledMandate>, tools: ToolLookup): Work<Findings> {
  const { found, compared, total } = yield* findShadowed(mandates, tools);
  const more = found.length - MAX_SAID;
  return {
    sentences: [
      `Of ${counted(total, "rule")} that enforce, ${found.length} ${found.length === 1 ? "is" : "are"} proved to be shadowed.`,
      ...found.slice(0, MAX_SAID).map((each) => `${each.rule.path} of ${quoted(each.mandate.name)}: ${reasonOf(each)}`),
      ...(more > 0 ? [`The evidence has ${more} more.`] : []),
      ...(compared < total ? [`Only ${compared} were compared with all others: the work is bounded.`] : []),
      "Others may be shadowed without a proof.",
    ],
    evidence: found.map((each): Evidence => {
      const text = `${ruleText(each.mandate, each.rule)}; ${reasonOf(each)}`;
      return evidenceOf(each.mandate, each.rule.path, sentence(text));
    }),
  };
}

function reasonOf({ by }: ShadowedRule): string {
  const { mandate, rule } = by;
  return `${rule.path} of ${quoted(mandate.name)} (${mandate.id}) ${VERBS[rule.decision]} whenever it fires.`;
}

/**
 * Finds the rules that never decide, because another rule with more weight fires whenever they do. Reports only what is proved,
 * for actions whose conditions can be compared within the budget of one decision. Stale rules are left out.
 */
export function* findShadowed(mandates: Iterable<CompiledMandate>, tools: ToolLookup): Work<ShadowedRules> {
  const byPlace = new Map<string, ComparedRule[]>();
  const all: ComparedRule[] = [];
  for (const mandate of mandates) {
    yield;
    if (mandate.mode === "observe") continue;
    for (const rule of mandate.rules) {
      if (rule.stale) continue;
      const compared = comparedRule(mandate, rule, tools);
      all.push(compared);
      const key = placeOf(mandate, rule.tool);
      const there = byPlace.get(key);
      if (there === undefined) byPlace.set(key, [compared]);
      else there.push(compared);
    }
  }
  const found: ShadowedRule[] = [];
  let comparisons = 0;
  let compared = 0;
  for (const each of all) {
    if (comparisons > MAX_COMPARISONS) break;
    compared++;
    search: for (const place of placesOver(each)) {
      for (const other of byPlace.get(place) ?? []) {
        yield;
        comparisons += 1 + (each.conditions?.conditions.length ?? 0) * (other.conditions?.conditions.length ?? 0);
        if (!shadows(other, each)) continue;
        found.push({ mandate: each.mandate, rule: each.rule, by: other });
        break search;
      }
    }
  }
  return { found, compared, total: all.length };
}

function comparedRule(mandate: CompiledMandate, rule: CompiledRule, tools: ToolLookup): ComparedRule {
  return {
    mandate,
    rule,
    conditions: comparedConditions(rule, rule.tool === undefined ? undefined : tools(rule.tool)),
    strictest: Math.max(...decisionsOf(rule).map((decision) => SEVERITY[decision])),
  };
}

const scopeOf = ({ scope, agentId, departmentId }: CompiledMandate): string =>
  scope === "workspace" ? "workspace" : `${scope} ${agentId ?? departmentId}`;

const placeOf = (mandate: CompiledMandate, tool: string | undefined): string => `${scopeOf(mandate)}\n${tool ?? ""}`;

/** Lists the places of rules that cover all agents and tools that a rule covers. */
function placesOver({ mandate, rule }: ComparedRule): ReadonlySet<string> {
  const tools = ["", rule.tool ?? ""];
  return new Set([scopeOf(mandate), "workspace"].flatMap((scope) => tools.map((tool) => `${scope}\n${tool}`)));
}

/** Tests whether a rule is proved to decide before another whenever that one fires. The agents and tools are covered already. */
function shadows(broad: ComparedRule, narrow: ComparedRule): boolean {
  if (broad.rule === narrow.rule || !weighsMore(broad, narrow)) return false;
  return coversTypes(broad.rule, narrow.rule) && firesWhenever(broad, narrow);
}

// INVARIANT: the order in which `evaluate` chooses the rule that decides.
function weighsMore(broad: ComparedRule, narrow: ComparedRule): boolean {
  const { decision, index } = broad.rule;
  // The decision of a semantic rule depends on its guard, and whether it fires does as well.
  if (broad.rule.type === RuleType.SEMANTIC) return false;
  if (SEVERITY[decision] !== narrow.strictest) return SEVERITY[decision] > narrow.strictest;
  const order = compareMandates(broad.mandate, narrow.mandate);
  return order === 0 ? index < narrow.rule.index : order < 0;
}

/** Tests whether each action type that a rule covers is covered by another. */
function coversTypes(broad: CompiledRule, narrow: CompiledRule): boolean {
  const isListed = broad.actionTypes.length === 0 || coversEach(broad.actionTypes, anyOf(narrow.actionTypes));
  return isListed && coversEach(narrow.excludedTypes, broad.excludedTypes);
}

const anyOf = (patterns: readonly string[]): readonly string[] => (patterns.length === 0 ? ["*"] : patterns);

/** Tests whether each of some patterns is covered by a pattern of a wider list. */
const coversEach = (wider: readonly string[], patterns: readonly string[]): boolean =>
  patterns.every((each) => wider.some((pattern) => coversPattern(pattern, each)));

function firesWhenever(broad: ComparedRule, narrow: ComparedRule): boolean {
  const [one, other] = [broad.rule, narrow.rule];
  // Nothing is known about when an expression is true.
  if (one.when !== undefined) return false;
  if (one.type === RuleType.ACTION) return true;
  if (one.type !== other.type) return false;
  const [given, wanted] = [one.source.conditions, other.source.conditions];
  switch (one.type) {
    case RuleType.ARGUMENT:
    case RuleType.METADATA: {
      if (one.tool !== other.tool || broad.conditions === undefined || narrow.conditions === undefined) return false;
      const allowing = { narrow: other.decision === "allow", broad: one.decision === "allow" };
      return conditionsImply(narrow.conditions, broad.conditions, allowing);
    }
    case RuleType.CONTENT:
      return contentImplies(one, given, wanted);
    case RuleType.TRUST:
      return (wanted?.below ?? 0) <= (given?.below ?? 0);
    case RuleType.SCHEDULE:
      return scheduleOf(given) === scheduleOf(wanted);
    case RuleType.SCHEMA:
      return one.tool === other.tool;
    case RuleType.SEQUENCE:
      return sequenceImplies(one, other);
    default:
      return false;
  }
}

function contentImplies(
  { decision }: CompiledRule,
  broad: Conditions | undefined,
  narrow: Conditions | undefined,
): boolean {
  const known = new Set(broad?.patterns);
  const wanted = new Set(narrow?.patterns);
  // More patterns take longer to search, and an allow rule does not hold for a search that is too long.
  return [...wanted].every((each) => known.has(each)) && (decision !== "allow" || known.size === wanted.size);
}

function scheduleOf(conditions: Conditions | undefined): string {
  const { timeZone, days = [], from, to, outside } = conditions ?? {};
  return JSON.stringify([timeZone, [...days].sort(), from, to, outside]);
}

function sequenceImplies({ velocity, budget, ordered }: CompiledRule, narrow: CompiledRule): boolean {
  if (budget !== undefined && narrow.budget !== undefined) return budgetImplies(budget, narrow.budget);
  if (velocity !== undefined && narrow.velocity !== undefined) return velocityImplies(velocity, narrow.velocity);
  return ordered !== undefined && narrow.ordered !== undefined && orderedImplies(ordered, narrow.ordered);
}

function velocityImplies(broad: CompiledVelocity, narrow: CompiledVelocity): boolean {
  const [one, other] = [broad.counter, narrow.counter];
  return (
    // A counter that counts by outcomes counts some of the actions, from its own beginning on.
    (one.pot === undefined || one.pot.key === other.pot?.key) &&
    broad.maxCount <= narrow.maxCount &&
    one.windowMs >= other.windowMs &&
    coversEach(one.patterns, other.patterns) &&
    coversEach(other.excluded, one.excluded) &&
    countsDecisions(one, other) &&
    countsGroup(one, other)
  );
}

/** Tests whether a budget is exceeded whenever another is: what cannot be added violates both. */
function budgetImplies(broad: CompiledBudget, narrow: CompiledBudget): boolean {
  const isSame = broad.pot.key === narrow.pot.key && (narrow.ignoresOthers || !broad.ignoresOthers);
  return isSame && broad.maxTotal <= narrow.maxTotal && broad.windowMs >= narrow.windowMs;
}

function countsDecisions({ countDecisions: broad }: CounterSpec, { countDecisions: narrow }: CounterSpec): boolean {
  return broad.length === 0 || (narrow.length > 0 && narrow.every((decision) => broad.includes(decision)));
}

/** Tests whether the group that one counter counts always holds the other's, for agents that both cover. */
function countsGroup(broad: CounterSpec, narrow: CounterSpec): boolean {
  if (broad.scope === "workspace") return true;
  if (broad.departmentId !== undefined) return broad.departmentId === narrow.departmentId;
  // The departments of the agent hold the agent, and the one that a rule names for its members.
  return broad.scope === "department" ? narrow.scope !== "workspace" : narrow.scope === "agent";
}

function orderedImplies(broad: OrderedSpec, narrow: OrderedSpec): boolean {
  const isSame = broad.key === narrow.key && broad.departmentId === narrow.departmentId;
  return isSame && broad.windowMs >= narrow.windowMs;
}
