import type { Plan, PlannedMandate } from "./index-rules.ts";
import type {
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
  PolicyReason,
  PolicyResult,
} from "./types.ts";

/** A rule that fired, with its mandate. */
interface FiredRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly decision: Decision;
  readonly reason: PolicyReason;
}

/** Everything that evaluation collects, in the order of mandate id and rule. */
interface Collected {
  /** Rules of enforcing mandates. */
  readonly rules: FiredRule[];
  readonly fired: FiredMandate[];
  readonly observed: FiredMandate[];
  readonly collectiveLimits: LimitState[];
  readonly guards: GuardFinding[];
}

/** Predicate on rules that evaluation skips. */
type Skips = (rule: CompiledRule) => boolean;

/** Restrictiveness of a decision; the higher one wins. */
const SEVERITY: Readonly<Record<Decision, number>> = { allow: 1, escalate: 2, block: 3 };

/** Stands in for the answer to a question that was not asked: the rule came into force while the action waited. */
const NOT_ASKED: GuardAnswer = { kind: "unavailable", cause: "not_asked", latencyMs: 0 };

/** Evaluates every rule of a plan and joins their decisions. */
export function evaluate(plan: Plan, context: EvaluationContext): PolicyResult {
  const { rules, ...collected } = collect(plan, context, plan.asksGuard ? skippable(plan, context) : skipsNone);
  const sorted = rules.sort(byWeight);
  const reasons = sorted.map(({ reason }) => reason);
  const [winner] = sorted;
  if (winner === undefined) return { decision: undefined, reasons, ...collected };
  const { decision, mandate, rule } = winner;
  return { decision, winner: { mandate, rule }, reasons, ...collected };
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
  const summary = { mandate, decision, reasons: fired.map(({ reason }) => reason) };
  if (mandate.mode === "observe") collected.observed.push(summary);
  else {
    collected.fired.push(summary);
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
  const { decision = rule.decision, ...found } = finding;
  return { mandate, rule, decision, reason: { ...found, mandateId: mandate.id, mandateName: mandate.name } };
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
