import type { Plan, PlannedMandate } from "./policy-plan.ts";
import { NOT_ASKED } from "./semantic-types.ts";
import type {
  CompiledMandate,
  CompiledRule,
  CompiledVelocity,
  CounterReading,
  Decision,
  EvaluatedMandate,
  Facts,
  Finding,
  FiredMandate,
  GuardFinding,
  LimitState,
  PolicyReason,
  PolicyResult,
  SemanticSpec,
} from "./types.ts";
import { SEVERITY } from "./words.ts";

interface Fired {
  readonly mandate: CompiledMandate;
  readonly rule: CompiledRule;
  readonly decision: Decision;
  readonly reason: PolicyReason;
}

/** What evaluation has gathered so far. */
interface Gathered {
  readonly evaluated: EvaluatedMandate[];
  readonly fired: Fired[];
  readonly firedMandates: FiredMandate[];
  readonly observed: FiredMandate[];
  readonly limits: LimitState[];
  readonly guards: GuardFinding[];
}

/** Whether a rule is left out; undefined leaves out none. */
type LeftOut = ((rule: CompiledRule) => boolean) | undefined;

/** Evaluates every rule of a plan and joins what they say. */
export function evaluatePlan(plan: Plan, facts: Facts): PolicyResult {
  if (plan.mandates.length === 0) return plan.idle;
  const leftOut = plan.asksGuard ? needless(plan, facts) : undefined;
  const { evaluated, fired, firedMandates, observed, limits, guards } = gather(plan, facts, leftOut);
  if (fired.length === 0 && observed.length === 0 && limits.length === 0 && guards.length === 0) return plan.idle;
  if (fired.length > 1) fired.sort(byWeight);
  const [first] = fired;
  const reasons = fired.map(({ reason }) => reason);
  const rest = { reasons, fired: firedMandates, evaluated, observed, collectiveLimits: limits, guards };
  if (first === undefined) return { decision: undefined, ...rest };
  return { decision: first.decision, winner: { mandate: first.mandate, rule: first.rule }, ...rest };
}

/** Where deterministic rules block, a semantic rule that nobody answered is needless: no answer would change anything. */
function needless(plan: Plan, facts: Facts): LeftOut {
  const { fired } = gather(plan, facts, ({ semantic }) => semantic !== undefined);
  if (fired.every(({ decision }) => decision !== "block")) return undefined;
  return ({ semantic }) => semantic !== undefined && facts.answerTo?.(semantic) === undefined;
}

function gather(plan: Plan, facts: Facts, leftOut: LeftOut): Gathered {
  const gathered: Gathered = { evaluated: [], fired: [], firedMandates: [], observed: [], limits: [], guards: [] };
  for (const planned of plan.mandates) evaluateMandate(planned, facts, gathered, leftOut);
  return gathered;
}

function evaluateMandate(
  { mandate, rules, idle }: PlannedMandate,
  facts: Facts,
  gathered: Gathered,
  leftOut: LeftOut,
): void {
  const own: Fired[] = [];
  for (const rule of rules) {
    if (!countsActor(rule, facts) || leftOut?.(rule)) continue;
    const reading = rule.velocity === undefined ? undefined : facts.readCounter(rule.velocity.counter);
    if (reading !== undefined) gathered.limits.push(limitFrom(mandate, rule, reading));
    const guard = rule.semantic === undefined ? undefined : guardFrom(mandate, rule, rule.semantic, facts);
    if (guard !== undefined) gathered.guards.push(guard);
    const finding = rule.check(facts, reading, guard?.answer);
    if (finding !== undefined) own.push(firedFrom(mandate, rule, finding));
  }
  const [first] = own.sort(byWeight);
  gathered.evaluated.push(first === undefined ? idle : { mandate, decision: first.decision });
  if (first === undefined) return;
  const isEnforced = mandate.mode === "enforce";
  if (isEnforced) gathered.fired.push(...own);
  const fired = { mandate, decision: first.decision, reasons: own.map(({ reason }) => reason) };
  (isEnforced ? gathered.firedMandates : gathered.observed).push(fired);
}

/** Whether the actor belongs to the group that a sequence rule names; a rule on a department is for its members. */
function countsActor({ velocity, ordered }: CompiledRule, { departmentIds }: Facts): boolean {
  const departmentId = velocity?.counter.departmentId ?? ordered?.departmentId;
  return departmentId === undefined || departmentIds.includes(departmentId);
}

// INVARIANT: a total order on what fired, so that the outcome does not depend on the order of publishing.
function byWeight(a: Fired, b: Fired): number {
  return (
    SEVERITY[b.decision] - SEVERITY[a.decision] ||
    b.mandate.priority - a.mandate.priority ||
    (a.mandate.id < b.mandate.id ? -1 : a.mandate.id > b.mandate.id ? 1 : a.rule.index - b.rule.index)
  );
}

function firedFrom(mandate: CompiledMandate, rule: CompiledRule, finding: Finding): Fired {
  const { decision = rule.decision, ...found } = finding;
  return { mandate, rule, decision, reason: { ...found, mandateId: mandate.id, mandateName: mandate.name } };
}

function guardFrom(mandate: CompiledMandate, rule: CompiledRule, spec: SemanticSpec, facts: Facts): GuardFinding {
  const answer = facts.answerTo?.(spec) ?? NOT_ASKED;
  return { mandateId: mandate.id, version: mandate.version, rule: rule.path, spec, answer };
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
