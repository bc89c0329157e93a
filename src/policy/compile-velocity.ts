import type { Conditions } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { normalisePatterns } from "./action-pattern.ts";
import { plainFinding, sentence } from "./finding.ts";
import type { RuleBody, RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";
import { checkDepartment, checkMode, limitOf, sequenceGroup, windowSecondsOf } from "./sequence-fields.ts";
import type { CompiledVelocity, CounterSpec } from "./types.ts";

const MAX_COUNT = Number.MAX_SAFE_INTEGER;

/** Compiles a velocity rule: it fires when the count of its window, this action included, is above its limit. */
export const compileVelocity: RuleBodyCompiler = (draft) => {
  const { conditions, path, violations } = draft;
  const before = violations.count();
  checkMode(draft, "ordered", "steps", conditions.steps.length > 0);
  const maxCount = limitOf(conditions.maxCount, [0, MAX_COUNT], `${path}.conditions.max_count`, violations);
  const windowSeconds = windowSecondsOf(draft);
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
  const group = sequenceGroup(conditions);
  return {
    key: JSON.stringify([patterns, group.countDecisions]),
    patterns,
    windowMs: windowSeconds * 1000,
    ...group,
  };
}
