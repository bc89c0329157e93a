import { demandOf, demandsOf } from "./approvers.ts";
import { type BudgetReading, budgetStateFrom, type CompiledBudget, paymentOf } from "./budget.ts";
import { countedAgents, ruleCoversAgent } from "./coverage.ts";
import { toolKey } from "./names.ts";
import type { Plan, PlannedMandate } from "./rule-index.ts";
import { compareMandates, SEVERITY } from "./severity.ts";
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
  ObservedMandate,
  PolicyReason,
  PolicyResult,
  ReadLimit,
} from "./types.ts";
import { createPassTest, type PassTest } from "./would-pass.ts";

/** A rule that fired, with its mandate. */
interface FiredRule {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly decision: Decision;
  /** Findings of the rule, the most decisive first. */
  readonly findings: readonly Finding[];
}

/** Everything that evaluation collects, in the order of mandate id and rule. */
interface Collected {
  /** Rules of enforcing mandates. */
  readonly rules: FiredRule[];
  readonly fired: FiredMandate[];
  readonly observed: ObservedMandate[];
  readonly collectiveLimits: ReadLimit[];
  readonly guards: GuardFinding[];
}

/** Tests whether evaluation skips a rule. */
type Skips = (rule: CompiledRule) => boolean;

/** Number of reasons after which those of further rules are left out. */
const MAX_REASONS = 200;

/** Answer to a question that was not asked, because the rule came into force while the action waited. */
const NOT_ASKED: GuardAnswer = { kind: "unavailable", cause: "not_asked", latencyMs: 0 };

const NONE_PASSES: PassTest = () => false;
const skipsNone: Skips = () => false;

/** Evaluates every rule of a plan and joins their decisions. */
export function evaluate(plan: Plan, context: EvaluationContext): PolicyResult {
  const { rules, ...collected } = collect(plan, context, plan.asksGuard ? skippable(plan, context) : skipsNone);
  const sorted = rules.sort(byWeight);
  const [winner] = sorted;
  const missingChecks = [...context.checks.missing];
  const lists = context.checks.lists.used;
  if (winner === undefined)
    return { decision: undefined, reasons: [], demands: [], missingChecks, lists, ...collected };
  const { decision, mandate, rule } = winner;
  const passes = decision === "allow" || plan.asksGuard ? NONE_PASSES : passTest(plan, context);
  const reasons: PolicyReason[] = [];
  for (const fired of sorted) {
    if (reasons.length >= MAX_REASONS) break;
    reasons.push(...reasonsFrom(fired, decision, passes));
  }
  const demands = decision === "escalate" ? demandsFrom(sorted) : [];
  return { decision, winner: { mandate, rule }, reasons, demands, missingChecks, lists, ...collected };
}

/**
 * Creates the predicate that skips unanswered semantic rules if deterministic rules block: no answer would change the decision.
 */
function skippable(plan: Plan, context: EvaluationContext): Skips {
  const { left } = context.checks.when;
  const { rules } = collect(plan, context, ({ semantic }) => semantic !== undefined);
  // The same expressions are evaluated again, and an action has its steps once.
  context.checks.when.restore(left);
  if (rules.every(({ decision }) => decision !== "block")) return skipsNone;
  return ({ semantic }) => semantic !== undefined && context.guardAnswerFor?.(semantic) === undefined;
}

/** Checks the rules of every mandate of a plan. */
function collect(plan: Plan, context: EvaluationContext, skips: Skips): Collected {
  const collected = { rules: [], fired: [], observed: [], collectiveLimits: [], guards: [] };
  for (const planned of plan.mandates) evaluateMandate(planned, context, skips, collected);
  return collected;
}

/** Checks the rules of one mandate, in their order. */
function evaluateMandate(
  { mandate, rules }: PlannedMandate,
  context: EvaluationContext,
  skips: Skips,
  collected: Collected,
): void {
  const fired: FiredRule[] = [];
  for (const rule of rules) {
    if (skips(rule)) continue;
    const finding = checkRule(mandate, rule, context, collected);
    if (finding !== undefined) fired.push(firedRule(mandate, rule, finding));
  }
  const decision = fired.sort(byWeight)[0]?.decision;
  if (decision === undefined) return;
  if (mandate.mode === "observe") {
    const reasons = fired.flatMap((each) => reasonsFrom(each, decision, NONE_PASSES)).slice(0, MAX_REASONS);
    collected.observed.push({ mandate, decision, reasons });
  } else {
    collected.fired.push({ mandate, decision });
    collected.rules.push(...fired);
  }
}

/** Checks one rule with its counters and its guard's answer, and notes all of them. */
function checkRule(
  mandate: CompiledMandate,
  rule: CompiledRule,
  context: EvaluationContext,
  { collectiveLimits, guards }: Collected,
): Finding | undefined {
  const { velocity, budget, semantic } = rule;
  if (velocity !== undefined) {
    const readings = readCounters(mandate, rule, velocity, context);
    for (const reading of readings) collectiveLimits.push(readLimit(mandate, rule, velocity, reading, context));
    return firstOf(readings, (reading) => rule.check(context, reading));
  }
  if (budget !== undefined) {
    const readings = readPots(mandate, rule, budget, context);
    for (const reading of readings) {
      const agentId = reading.principalId ?? context.agentId;
      collectiveLimits.push({ ...budgetLimit(budget, reading), agentId, mandateId: mandate.id, rule: rule.path });
    }
    return firstOf(readings, (reading) => rule.check(context, undefined, undefined, reading));
  }
  if (!ruleCoversAgent(rule, context)) return undefined;
  if (semantic === undefined) return rule.check(context);
  // No question is asked for a rule that does not fire whatever the answer is.
  if (rule.mayFire !== undefined && !rule.mayFire(context)) return undefined;
  const answer = context.guardAnswerFor?.(semantic) ?? NOT_ASKED;
  guards.push({ mandateId: mandate.id, version: mandate.version, rule: rule.path, spec: semantic, answer });
  return rule.check(context, undefined, answer);
}

/** Reads the counter of a velocity rule for each agent that it counts the action for, each group once. */
export function readCounters(
  mandate: CompiledMandate,
  rule: CompiledRule,
  { counter }: CompiledVelocity,
  context: EvaluationContext,
): readonly CounterReading[] {
  const readings = countedAgents(mandate, rule, context).map((agent): CounterReading => {
    const reading = context.counterValue(counter, agent);
    return agent.agentId === context.agentId ? reading : { ...reading, principalId: agent.agentId };
  });
  return distinctGroups(readings);
}

/** Reads the pot of a budget for each agent that it adds the action for, each group once. */
export function readPots(
  mandate: CompiledMandate,
  rule: CompiledRule,
  budget: CompiledBudget,
  context: EvaluationContext,
): readonly BudgetReading[] {
  const tool = toolKey(context.tool?.name ?? context.toolName ?? "");
  const payment = paymentOf(budget.pot, tool, context.arguments);
  if (payment === undefined) return [];
  const readings = countedAgents(mandate, rule, context).map((agent): BudgetReading => {
    const reading = { ...context.potValue(budget, agent), tool, payment };
    return agent.agentId === context.agentId ? reading : { ...reading, principalId: agent.agentId };
  });
  return distinctGroups(readings);
}

function distinctGroups<Reading extends { readonly group: string }>(readings: readonly Reading[]): readonly Reading[] {
  return readings.filter(({ group }, index) => readings.findIndex((other) => other.group === group) === index);
}

function firstOf<T, R>(items: readonly T[], find: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns what the rules ask for that escalate an action, in their order. */
function demandsFrom(fired: readonly FiredRule[]): PolicyResult["demands"] {
  const escalating = fired.filter(({ decision }) => decision === "escalate");
  return demandsOf(escalating.map(({ mandate, rule }) => demandOf(mandate.id, rule)));
}

function firedRule(mandate: CompiledMandate, rule: CompiledRule, finding: Finding): FiredRule {
  const { decision = rule.decision, others = [] } = finding;
  return { mandate, rule, decision, findings: [finding, ...others] };
}

/** Writes the reasons of a rule that fired, each with a change that would have passed. `strictest` is the decision of all rules. */
function reasonsFrom(
  { mandate, decision, findings }: FiredRule,
  strictest: Decision,
  passes: PassTest,
): PolicyReason[] {
  return findings.map(({ code, message, rule, argument, valueKind, change, fits }) => ({
    code,
    message,
    rule,
    ...(argument === undefined ? {} : { argument }),
    ...(valueKind === undefined ? {} : { valueKind }),
    mandateId: mandate.id,
    mandateName: mandate.name,
    ...wouldPassOf(change !== undefined && passes(change) ? `would allow at ${change.text}` : fits),
    ...(decision === strictest ? {} : { decision }),
  }));
}

const wouldPassOf = (wouldPass: string | undefined) => (wouldPass === undefined ? {} : { wouldPass });

/** Creates the test whether the plan allows the action after a change of its arguments. */
function passTest(plan: Plan, context: EvaluationContext): PassTest {
  const decideWith = (changed: EvaluationContext): Decision => {
    const [strictest] = collect(plan, changed, skipsNone).rules.sort(byWeight);
    return strictest?.decision ?? context.defaultDecision ?? "allow";
  };
  return createPassTest(plan, context, decideWith);
}

// INVARIANT: a total order, so that the result does not depend on the order in which mandates were published.
function byWeight(a: FiredRule, b: FiredRule): number {
  return (
    SEVERITY[b.decision] - SEVERITY[a.decision] || compareMandates(a.mandate, b.mandate) || a.rule.index - b.rule.index
  );
}

function readLimit(
  mandate: CompiledMandate,
  rule: CompiledRule,
  { counter, maxCount, windowSeconds }: CompiledVelocity,
  reading: CounterReading,
  { agentId }: EvaluationContext,
): ReadLimit {
  return {
    scope: counter.scope,
    group: reading.group,
    members: reading.members,
    count: reading.count,
    limit: maxCount,
    window: windowSeconds,
    remaining: Math.max(0, maxCount - reading.count),
    source: reading.source,
    mandateId: mandate.id,
    rule: rule.path,
    counter,
    spending: undefined,
    agentId: reading.principalId ?? agentId,
  };
}

function budgetLimit(budget: CompiledBudget, reading: BudgetReading) {
  const { group, members, reserved, captured, payment } = reading;
  const state = budgetStateFrom(budget, { reserved: reserved + BigInt(payment.millionths ?? 0), captured });
  const { pot, windowMs } = budget;
  const spending = { budget, past: reserved + captured, payment };
  const counts = { count: 0, limit: 0, remaining: 0, source: "decision_log" } as const;
  return {
    scope: pot.scope,
    group,
    members,
    ...counts,
    window: windowMs / 1000,
    budget: state,
    counter: undefined,
    spending,
  };
}
