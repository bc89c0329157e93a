import { BudgetRelease, OtherCurrency, SequenceMode } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { normalisePatterns } from "../action-patterns.ts";
import { normaliseName } from "../names.ts";
import type { CompiledVelocity, OrderedSpec } from "../types.ts";
import { compileBudget, countPotFrom } from "./budget.ts";
import { checkCountsAllowed, outcomesFrom } from "./count-outcomes.ts";
import { type RuleBody, type RuleBodyCompiler, type RuleDraft, ruleFinding } from "./rule-draft.ts";
import { checkPatterns } from "./rule-fields.ts";
import { addWrongMode, checkDepartment, groupFrom, limitFrom, windowSecondsFrom } from "./sequence-fields.ts";

const MAX_COUNT = Number.MAX_SAFE_INTEGER;
/** Minimum steps of an ordered sequence. */
export const MIN_STEPS = 2;
/** Maximum steps of an ordered sequence. */
export const MAX_STEPS = 20;

/** Compiles a `sequence` rule by its mode. Without one, it is checked for the mode that its fields suggest. */
export const compileSequence: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const mode = conditions.mode === SequenceMode.UNSPECIFIED ? suggestedMode(draft) : conditions.mode;
  if (conditions.mode === SequenceMode.UNSPECIFIED) {
    const message = "a sequence rule needs the mode `velocity`, `ordered` or `budget`";
    const suggestion =
      mode === SequenceMode.VELOCITY ? undefined : mode === SequenceMode.ORDERED ? "ordered" : "budget";
    violations.add(`${path}.conditions.mode`, "MODE_MISSING", message, suggestion);
  }
  checkMode(draft, mode);
  if (mode === SequenceMode.BUDGET) return compileBudget(draft);
  return mode === SequenceMode.ORDERED ? compileOrdered(draft) : compileVelocity(draft);
};

function suggestedMode({ conditions }: RuleDraft): SequenceMode {
  if (conditions.sums.length > 0 || conditions.maxTotal !== undefined) return SequenceMode.BUDGET;
  return conditions.steps.length > 0 ? SequenceMode.ORDERED : SequenceMode.VELOCITY;
}

/** Fields that belong to one mode, or two. */
const MODE_FIELDS: readonly (readonly [
  string,
  readonly SequenceMode[],
  (given: RuleDraft["conditions"]) => boolean,
])[] = [
  ["max_count", [SequenceMode.VELOCITY], (given) => given.maxCount !== undefined],
  ["match_action_types", [SequenceMode.VELOCITY], (given) => given.matchActionTypes.length > 0],
  ["steps", [SequenceMode.ORDERED], (given) => given.steps.length > 0],
  [
    "exclude_action_types",
    [SequenceMode.VELOCITY, SequenceMode.ORDERED],
    (given) => given.excludeActionTypes.length > 0,
  ],
  ["count_outcomes", [SequenceMode.VELOCITY, SequenceMode.BUDGET], (given) => given.countOutcomes.length > 0],
  ["sums", [SequenceMode.BUDGET], (given) => given.sums.length > 0],
  ["currency", [SequenceMode.BUDGET], (given) => given.currency !== undefined],
  ["max_total", [SequenceMode.BUDGET], (given) => given.maxTotal !== undefined],
  ["other_currency", [SequenceMode.BUDGET], (given) => given.otherCurrency !== OtherCurrency.UNSPECIFIED],
  ["release", [SequenceMode.BUDGET], (given) => given.release !== BudgetRelease.UNSPECIFIED],
];

const MODE_NAMES: ReadonlyMap<SequenceMode, string> = new Map([
  [SequenceMode.VELOCITY, "velocity"],
  [SequenceMode.ORDERED, "ordered"],
  [SequenceMode.BUDGET, "budget"],
]);

/** Notes every field that belongs to another mode. */
function checkMode(draft: RuleDraft, mode: SequenceMode): void {
  for (const [field, owners, isSet] of MODE_FIELDS) {
    if (owners.includes(mode) || !isSet(draft.conditions)) continue;
    addWrongMode(draft, owners.map((owner) => `\`${MODE_NAMES.get(owner)}\``).join(" and "), field);
  }
}

/** Compiles a velocity rule: it fires if the count of its window, the action at hand included, is above its limit. */
function compileVelocity(draft: RuleDraft): RuleBody | undefined {
  const { conditions, violations } = draft;
  const before = violations.count;
  const maxCount = limitFrom(draft, "max_count", conditions.maxCount, 0, MAX_COUNT);
  const windowSeconds = windowSecondsFrom(draft);
  checkDepartment(draft);
  const outcomes = outcomesFrom(draft);
  if (outcomes !== undefined) checkCountsAllowed(draft);
  if (violations.count > before || conditions.matchActionTypes.length === 0) return undefined;
  const patterns = normalisePatterns(conditions.matchActionTypes);
  const group = groupFrom(conditions);
  const excluded = normalisePatterns(conditions.excludeActionTypes);
  const key = JSON.stringify([patterns, group.countDecisions, ...excluded]);
  const counter = { key, patterns, excluded, windowMs: windowSeconds * 1000, ...group };
  return velocityBody(draft, {
    counter: outcomes === undefined ? counter : { ...counter, pot: countPotFrom(counter, outcomes) },
    maxCount,
    windowSeconds,
  });
}

function velocityBody(draft: RuleDraft, velocity: CompiledVelocity): RuleBody {
  const { maxCount, windowSeconds } = velocity;
  return {
    velocity,
    check: (_context, reading) => {
      if (reading === undefined || reading.count <= maxCount) return undefined;
      const forPrincipal = reading.principalId === undefined ? "" : ` for principal \`${reading.principalId}\``;
      const text = `${reading.count} matching actions${forPrincipal} in ${windowSeconds} s are more than ${maxCount}`;
      return ruleFinding(draft, "LIMIT_EXCEEDED", text);
    },
  };
}

/**
 * Compiles an ordered sequence: it fires on the action that is its last step, if past actions in the window were the other
 * steps in their order. Every recorded attempt is a step, even if it was not allowed: an escalated action may have been
 * approved and done later, and a refused attempt shows the same intent.
 */
function compileOrdered(draft: RuleDraft): RuleBody | undefined {
  const { conditions, violations } = draft;
  const before = violations.count;
  checkSteps(draft);
  const windowSeconds = windowSecondsFrom(draft);
  checkDepartment(draft);
  if (violations.count > before) return undefined;
  const steps = conditions.steps.map(normaliseName);
  const group = groupFrom(conditions);
  const excluded = normalisePatterns(conditions.excludeActionTypes);
  const key = JSON.stringify([steps, group.countDecisions, group.scope, ...excluded]);
  return orderedBody(draft, { key, steps, excluded, windowMs: windowSeconds * 1000, ...group });
}

function orderedBody(draft: RuleDraft, ordered: OrderedSpec): RuleBody {
  const { steps, windowMs } = ordered;
  const text = `${steps.map((step) => `\`${step}\``).join(", then ")} happened in order within ${windowMs / 1000} s`;
  const finding = ruleFinding(draft, "SEQUENCE_COMPLETED", text);
  return {
    ordered,
    actionTypes: steps.slice(-1),
    check: (context) => {
      return context.sequenceStartedAtMs(ordered) === undefined ? undefined : finding;
    },
  };
}

function checkSteps({ conditions: { steps }, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.steps`;
  if (steps.length === 0) {
    violations.add(at, "MATCH_MISSING", "an ordered sequence needs steps such as `secret.read`, `http.*`");
  } else if (steps.length < MIN_STEPS || steps.length > MAX_STEPS) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `a sequence has ${MIN_STEPS} to ${MAX_STEPS} steps, not ${steps.length}`);
  }
  checkPatterns(steps, at, violations);
}
