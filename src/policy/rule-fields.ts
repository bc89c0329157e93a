import { type Conditions, type Rule, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { isActionPattern } from "./action-pattern.ts";
import type { Violations } from "./violations.ts";

/** The types of rules as they are written. */
export const RULE_TYPE_WORDS: ReadonlyMap<RuleType, string> = new Map([
  [RuleType.ARGUMENT, "argument"],
  [RuleType.METADATA, "metadata"],
  [RuleType.ACTION, "action"],
  [RuleType.CONTENT, "content"],
  [RuleType.SEQUENCE, "sequence"],
  [RuleType.TRUST, "trust"],
]);

/** The tool that a rule names; undefined when it names none or a blank. */
export function toolOf(rule: Rule): string | undefined {
  const name = rule.tool?.trim();
  return name === "" ? undefined : name;
}

// Each field of the conditions with the types of rules it means something to; `match_action_types` narrows them all.
const FIELDS: readonly {
  readonly name: string;
  readonly types: readonly RuleType[];
  readonly isSet: (conditions: Conditions) => boolean;
}[] = [
  { name: "operator", types: [RuleType.ARGUMENT, RuleType.METADATA], isSet: (given) => given.operator !== "" },
  { name: "rules", types: [RuleType.ARGUMENT, RuleType.METADATA], isSet: (given) => given.rules.length > 0 },
  { name: "mode", types: [RuleType.SEQUENCE], isSet: (given) => given.mode !== SequenceMode.UNSPECIFIED },
  { name: "max_count", types: [RuleType.SEQUENCE], isSet: (given) => given.maxCount !== undefined },
  { name: "window_seconds", types: [RuleType.SEQUENCE], isSet: (given) => given.windowSeconds !== undefined },
  { name: "scope", types: [RuleType.SEQUENCE], isSet: (given) => given.scope !== Scope.UNSPECIFIED },
  { name: "department_id", types: [RuleType.SEQUENCE], isSet: (given) => given.departmentId !== undefined },
  { name: "count_decisions", types: [RuleType.SEQUENCE], isSet: (given) => given.countDecisions.length > 0 },
  { name: "patterns", types: [RuleType.CONTENT], isSet: (given) => given.patterns.length > 0 },
  { name: "below", types: [RuleType.TRUST], isSet: (given) => given.below !== undefined },
];

/** Notes every field of the conditions that means nothing to a rule of the type. */
export function checkApplicable(type: RuleType, conditions: Conditions, path: string, violations: Violations): void {
  for (const field of FIELDS) {
    if (field.types.includes(type) || !field.isSet(conditions)) continue;
    const takers = field.types.map((taker) => `\`${RULE_TYPE_WORDS.get(taker)}\``).join(" and ");
    const message = `\`${field.name}\` means nothing to a rule of type \`${RULE_TYPE_WORDS.get(type)}\`; it belongs to ${takers}`;
    violations.add(`${path}.${field.name}`, "CONDITION_FIELD_NOT_APPLICABLE", message);
  }
}

/** Notes action-type patterns that are none, and their absence where the rule's type needs some. */
export function checkActionTypes(type: RuleType, conditions: Conditions, path: string, violations: Violations): void {
  const needed = type === RuleType.ACTION || type === RuleType.SEQUENCE;
  if (needed && conditions.matchActionTypes.length === 0) {
    const message = `a rule of type \`${RULE_TYPE_WORDS.get(type)}\` needs action types such as \`payment.*\``;
    violations.add(`${path}.match_action_types`, "MATCH_MISSING", message);
  }
  conditions.matchActionTypes.forEach((pattern, index) => {
    if (isActionPattern(pattern)) return;
    const message = `\`${pattern}\` is neither an action type nor one with a trailing \`*\``;
    violations.add(`${path}.match_action_types[${index}]`, "MATCH_INVALID", message);
  });
}
