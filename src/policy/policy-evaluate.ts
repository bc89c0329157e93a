import type { Plan, PlannedMandate } from "./policy-plan.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompiledVelocity,
  CounterReading,
  Decision,
  EvaluatedMandate,
  Facts,
  Finding,
  LimitState,
  ObservedMandate,
  PolicyReason,
  PolicyResult,
} from "./types.ts";
import { SEVERITY } from "./words.ts";

interface Fired {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly finding: Finding;
}

/** What evaluation has gathered so far. */
interface Gathered {
  readonly evaluated: EvaluatedMandate[];
  readonly fired: Fired[];
  readonly observed: ObservedMandate[];
  readonly limits: LimitState[];
}

/** Evaluates every rule of a plan and joins what they say. */
export function evaluatePlan(plan: Plan, facts: Facts): PolicyResult {
  if (plan.mandates.length === 0) return plan.idle;
  const gathered: Gathered = { evaluated: [], fired: [], observed: [], limits: [] };
  for (const planned of plan.mandates) evaluateMandate(planned, facts, gathered);
  const { evaluated, fired, observed, limits } = gathered;
  if (fired.length === 0 && observed.length === 0 && limits.length === 0) return plan.idle;
  if (fired.length > 1) fired.sort(byWeight);
  const [first] = fired;
  const rest = { reasons: fired.map(reasonFrom), evaluated, observed, collectiveLimits: limits };
  if (first === undefined) return { decision: undefined, ...rest };
  return { decision: first.rule.decision, winner: { mandate: first.mandate, rule: first.rule }, ...rest };
}

function evaluateMandate({ mandate, rules, idle }: PlannedMandate, facts: Facts, gathered: Gathered): void {
  let decision: Decision | undefined;
  const own: Fired[] | undefined = mandate.mode === "observe" ? [] : undefined;
  for (const rule of rules) {
    if (!countsActor(rule, facts)) continue;
    const reading = rule.velocity === undefined ? undefined : facts.readCounter(rule.velocity.counter);
    if (reading !== undefined) gathered.limits.push(limitFrom(mandate, rule, reading));
    const finding = rule.check(facts, reading);
    if (finding === undefined) continue;
    (own ?? gathered.fired).push({ mandate, rule, finding });
    if (decision === undefined || SEVERITY[rule.decision] > SEVERITY[decision]) decision = rule.decision;
  }
  gathered.evaluated.push(decision === undefined ? idle : { mandate, decision });
  if (own === undefined || decision === undefined) return;
  gathered.observed.push({ mandate, decision, reasons: own.sort(byWeight).map(reasonFrom) });
}

/** Whether the actor belongs to the group that a velocity rule names; a limit on a department is for its members. */
function countsActor({ velocity }: CompiledRule, { departmentIds }: Facts): boolean {
  const departmentId = velocity?.counter.departmentId;
  return departmentId === undefined || departmentIds.includes(departmentId);
}

// INVARIANT: a total order on what fired, so that the outcome does not depend on the order of publishing.
function byWeight(a: Fired, b: Fired): number {
  return (
    SEVERITY[b.rule.decision] - SEVERITY[a.rule.decision] ||
    b.mandate.priority - a.mandate.priority ||
    (a.mandate.id < b.mandate.id ? -1 : a.mandate.id > b.mandate.id ? 1 : a.rule.index - b.rule.index)
  );
}

function reasonFrom({ mandate, finding }: Fired): PolicyReason {
  return { ...finding, mandateId: mandate.id, mandateName: mandate.name };
}

function limitFrom(mandate: CompiledMandate, rule: CompiledRule, reading: CounterReading): LimitState {
  const { counter, maxCount, windowSeconds } = rule.velocity as CompiledVelocity;
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
  };
}
