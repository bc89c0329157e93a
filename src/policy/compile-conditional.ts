import { type Condition, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type ArgumentIndex, compileArgumentCondition, compileMetadataCondition } from "./compile-condition.ts";
import type { CompiledCondition } from "./compiled-condition.ts";
import { createConditionCheck } from "./condition-list.ts";
import { nearest } from "./edit-distance.ts";
import type { RuleBodyCompiler, RuleDraft } from "./rule-draft.ts";

const MAX_CONDITIONS = 100;
const JOINTS = ["AND", "OR"];

/** Compiles the conditions of an `argument` or `metadata` rule. */
export const compileConditional: RuleBodyCompiler = (draft) => {
  const { conditions, violations } = draft;
  const before = violations.count();
  checkJoint(draft);
  checkCount(draft);
  const compiled = compileAll(draft);
  if (violations.count() > before) return undefined;
  const check = createConditionCheck({
    conditions: compiled,
    isAnd: conditions.operator !== "OR",
    decision: draft.decision,
    description: draft.rule.description,
  });
  return { check };
};

function compileAll(draft: RuleDraft): readonly CompiledCondition[] {
  const compile = conditionCompiler(draft);
  return draft.conditions.rules
    .slice(0, MAX_CONDITIONS)
    .map((condition, index) => compile(condition, `${draft.path}.conditions.rules[${index}]`))
    .filter((condition) => condition !== undefined);
}

function conditionCompiler({ type, tool, violations }: RuleDraft) {
  if (type !== RuleType.ARGUMENT) {
    return (condition: Condition, at: string) => compileMetadataCondition(condition, at, violations);
  }
  const known: ArgumentIndex = new Map(tool?.arguments.map((argument) => [argument.path, argument]));
  return (condition: Condition, at: string) => compileArgumentCondition(condition, at, known, violations);
}

function checkJoint({ conditions, path, violations }: RuleDraft): void {
  if (conditions.operator === "" || JOINTS.includes(conditions.operator)) return;
  const message = `conditions are joined by \`AND\` or \`OR\`, not by \`${conditions.operator}\``;
  const suggestion = nearest(conditions.operator, JOINTS);
  violations.add(`${path}.conditions.operator`, "CONDITION_OPERATOR_UNKNOWN", message, suggestion);
}

function checkCount({ conditions, path, violations }: RuleDraft): void {
  const { length } = conditions.rules;
  const at = `${path}.conditions.rules`;
  if (length === 0) violations.add(at, "CONDITIONS_MISSING", "the rule needs at least one condition");
  if (length <= MAX_CONDITIONS) return;
  violations.add(at, "LIMIT_OUT_OF_RANGE", `${length} conditions are more than ${MAX_CONDITIONS}`);
}
