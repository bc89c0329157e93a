import { type Conditions, SequenceMode } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { normaliseName, normalisePatterns } from "../names.ts";
import type { CompiledVelocity, OrderedSpec } from "../types.ts";
import {
  decisionFromEnum,
  type RuleBody,
  type RuleBodyCompiler,
  type RuleDraft,
  ruleFinding,
  scopeFromEnum,
} from "./rule-draft.ts";
import { checkPatterns } from "./rule-fields.ts";

const MAX_COUNT = Number.MAX_SAFE_INTEGER;
/** 31 days. */
const MAX_WINDOW_SECONDS = 2_678_400;
const MIN_STEPS = 2;
const MAX_STEPS = 20;

/** Compiles a `sequence` rule by its mode. Without one, it is checked for the mode that its fields suggest. */
export const compileSequence: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  if (conditions.mode === SequenceMode.VELOCITY) return compileVelocity(draft);
  if (conditions.mode === SequenceMode.ORDERED) return compileOrdered(draft);
  const isOrdered = conditions.steps.length > 0;
  const message = "a sequence rule needs the mode `velocity` or `ordered`";
  violations.add(`${path}.conditions.mode`, "MODE_MISSING", message, isOrdered ? "ordered" : undefined);
  return isOrdered ? compileOrdered(draft) : compileVelocity(draft);
};

/** Compiles a velocity rule: it fires if the count of its window, the action at hand included, is above its limit. */
function compileVelocity(draft: RuleDraft): RuleBody | undefined {
  const { conditions, violations } = draft;
  const before = violations.count;
  if (conditions.steps.length > 0) addWrongMode(draft, "ordered", "steps");
  const maxCount = limitFrom(draft, "max_count", conditions.maxCount, 0, MAX_COUNT);
  const windowSeconds = limitFrom(draft, "window_seconds", conditions.windowSeconds, 1, MAX_WINDOW_SECONDS);
  checkDepartment(draft);
  if (violations.count > before || conditions.matchActionTypes.length === 0) return undefined;
  const patterns = normalisePatterns(conditions.matchActionTypes);
  const group = groupFrom(conditions);
  const key = JSON.stringify([patterns, group.countDecisions]);
  return velocityBody(draft, {
    counter: { key, patterns, windowMs: windowSeconds * 1000, ...group },
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
  if (conditions.maxCount !== undefined) addWrongMode(draft, "velocity", "max_count");
  if (conditions.matchActionTypes.length > 0) addWrongMode(draft, "velocity", "match_action_types");
  checkSteps(draft);
  const windowSeconds = limitFrom(draft, "window_seconds", conditions.windowSeconds, 1, MAX_WINDOW_SECONDS);
  checkDepartment(draft);
  if (violations.count > before) return undefined;
  const steps = conditions.steps.map(normaliseName);
  const group = groupFrom(conditions);
  const key = JSON.stringify([steps, group.countDecisions, group.scope]);
  return orderedBody(draft, { key, steps, windowMs: windowSeconds * 1000, ...group });
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

/** Reads the group whose past actions a sequence rule counts, and the decisions that count. */
function groupFrom({ scope, departmentId, countDecisions }: Conditions) {
  const decisions = countDecisions.map(decisionFromEnum).filter((decision) => decision !== undefined);
  return {
    scope: scopeFromEnum(scope) ?? "agent",
    ...(departmentId !== undefined && { departmentId }),
    countDecisions: [...new Set(decisions)].sort(),
  };
}

/** Reads a whole number within a range; notes a violation if it is missing or outside. */
function limitFrom(
  { path, violations }: RuleDraft,
  field: string,
  given: bigint | undefined,
  min: number,
  max: number,
): number {
  const at = `${path}.conditions.${field}`;
  if (given === undefined) {
    violations.add(at, "LIMIT_MISSING", `a sequence rule needs a number from ${min} to ${max}`);
    return min;
  }
  if (given < min || given > max) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${given}\` is not from ${min} to ${max}`);
  }
  return Number(given);
}

function checkDepartment({ conditions, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.department_id`;
  if (conditions.departmentId === undefined) return;
  if (scopeFromEnum(conditions.scope) !== "department") {
    violations.add(at, "CONDITION_FIELD_NOT_APPLICABLE", "`department_id` goes with the scope `department` only");
  } else if (conditions.departmentId.trim() === "") {
    violations.add(at, "SCOPE_TARGET_MISSING", "the department is blank; leave it out for those of the acting agent");
  }
}

function addWrongMode({ path, violations }: RuleDraft, owner: string, field: string): void {
  const message = `\`${field}\` does not apply to a sequence rule of this mode; it belongs to \`${owner}\``;
  violations.add(`${path}.conditions.${field}`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}
