import { type Conditions, type Rule, RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { isActionPattern } from "./action-pattern.ts";
import type { RuleDraft } from "./rule-draft.ts";
import type { Violations } from "./violations.ts";

/** The types of rules as they are written. */
export const RULE_TYPE_WORDS: ReadonlyMap<RuleType, string> = new Map([
  [RuleType.ARGUMENT, "argument"],
  [RuleType.METADATA, "metadata"],
  [RuleType.ACTION, "action"],
  [RuleType.CONTENT, "content"],
  [RuleType.SEQUENCE, "sequence"],
  [RuleType.TRUST, "trust"],
  [RuleType.SCHEDULE, "schedule"],
  [RuleType.SCHEMA, "schema"],
  [RuleType.SEMANTIC, "semantic"],
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
  { name: "steps", types: [RuleType.SEQUENCE], isSet: (given) => given.steps.length > 0 },
  { name: "time_zone", types: [RuleType.SCHEDULE], isSet: (given) => given.timeZone !== undefined },
  { name: "days", types: [RuleType.SCHEDULE], isSet: (given) => given.days.length > 0 },
  { name: "from", types: [RuleType.SCHEDULE], isSet: (given) => given.from !== undefined },
  { name: "to", types: [RuleType.SCHEDULE], isSet: (given) => given.to !== undefined },
  { name: "outside", types: [RuleType.SCHEDULE], isSet: (given) => given.outside },
  { name: "prompt", types: [RuleType.SEMANTIC], isSet: (given) => given.prompt !== undefined },
  { name: "min_confidence", types: [RuleType.SEMANTIC], isSet: (given) => given.minConfidence !== undefined },
  {
    name: "on_unavailable",
    types: [RuleType.SEMANTIC],
    isSet: (given) => given.onUnavailable !== Decision.UNSPECIFIED,
  },
  { name: "timeout_ms", types: [RuleType.SEMANTIC], isSet: (given) => given.timeoutMs !== undefined },
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

/** Notes a rule that would allow by a misfit or by a model's word: neither is a reason to let an action pass. */
export function checkDecision({ type, decision, path, violations }: RuleDraft): void {
  if (decision !== "allow" || (type !== RuleType.SCHEMA && type !== RuleType.SEMANTIC)) return;
  const message = `a rule of type \`${RULE_TYPE_WORDS.get(type)}\` decides \`block\` or \`escalate\``;
  violations.add(`${path}.decision`, "DECISION_NOT_FITTING", message);
}

/** Notes action-type patterns that are none, and their absence where the rule's type needs some. */
export function checkActionTypes(type: RuleType, conditions: Conditions, path: string, violations: Violations): void {
  const isVelocity = type === RuleType.SEQUENCE && conditions.mode !== SequenceMode.ORDERED;
  const needed = type === RuleType.ACTION || (isVelocity && conditions.steps.length === 0);
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
