import { type Conditions, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { normalisePatterns } from "./action-pattern.ts";
import { plainFinding, sentence } from "./finding.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import type { CompiledVelocity, CounterSpec } from "./types.ts";
import type { Violations } from "./violations.ts";
import { decisionWord, scopeWord } from "./words.ts";

const MAX_WINDOW_SECONDS = 2_678_400;
const MAX_COUNT = Number.MAX_SAFE_INTEGER;

/** Compiles a `sequence` rule: it fires when the count of its window, this action included, is above its limit. */
export const compileVelocity: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const at = `${path}.conditions`;
  const before = violations.count();
  if (conditions.mode !== SequenceMode.VELOCITY) {
    violations.add(`${at}.mode`, "MODE_MISSING", "a sequence rule needs the mode `velocity`");
  }
  const maxCount = limitOf(conditions.maxCount, 0, MAX_COUNT, `${at}.max_count`, violations);
  const windowSeconds = limitOf(conditions.windowSeconds, 1, MAX_WINDOW_SECONDS, `${at}.window_seconds`, violations);
  checkDepartment(draft);
  if (violations.count() > before || conditions.matchActionTypes.length === 0) return undefined;
  return velocityBody(draft, { counter: counterFrom(conditions, windowSeconds), maxCount, windowSeconds });
};

function velocityBody({ rule, path }: RuleDraft, velocity: CompiledVelocity): RuleBody {
  const { maxCount, windowSeconds } = velocity;
  return {
    velocity,
    check: (_facts, reading) => {
      if (reading === undefined || reading.count <= maxCount) return undefined;
      const text = `${reading.count} matching actions in ${windowSeconds} s are more than ${maxCount}`;
      return plainFinding("LIMIT_EXCEEDED", sentence(rule.description, text), path);
    },
  };
}

function counterFrom(conditions: Conditions, windowSeconds: number): CounterSpec {
  const patterns = normalisePatterns(conditions.matchActionTypes);
  const decisions = conditions.countDecisions.map(decisionWord).filter((word) => word !== undefined);
  const countDecisions = [...new Set(decisions)].sort();
  return {
    key: JSON.stringify([patterns, countDecisions]),
    patterns,
    countDecisions,
    windowMs: windowSeconds * 1000,
    scope: scopeWord(conditions.scope) ?? "agent",
    ...(conditions.departmentId !== undefined && { departmentId: conditions.departmentId }),
  };
}

function limitOf(given: bigint | undefined, low: number, high: number, at: string, violations: Violations): number {
  if (given === undefined) {
    violations.add(at, "LIMIT_MISSING", `a velocity rule needs a number from ${low} to ${high}`);
    return low;
  }
  if (given < low || given > high)
    violations.add(at, "LIMIT_OUT_OF_RANGE", `\`${given}\` is not from ${low} to ${high}`);
  return Number(given);
}

function checkDepartment({ conditions, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.department_id`;
  if (conditions.departmentId === undefined) return;
  if (scopeWord(conditions.scope) !== "department") {
    violations.add(at, "CONDITION_FIELD_NOT_APPLICABLE", "`department_id` goes with the scope `department` only");
  } else if (conditions.departmentId.trim() === "") {
    violations.add(at, "SCOPE_TARGET_MISSING", "the department is blank; leave it out for those of the acting agent");
  }
}
