import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "./json-value.ts";
import type { Plan, PlannedMandate } from "./policy-set.ts";
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
} from "./types.ts";

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
