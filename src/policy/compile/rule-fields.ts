import {
  BudgetRelease,
  type Conditions,
  OtherCurrency,
  ProvenanceFires,
  RuleType,
  SequenceMode,
} from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { coversPattern, patternFault } from "../action-patterns.ts";
import { normaliseName } from "../names.ts";
import type { Violations } from "../violations.ts";
import { checkApprovers } from "./approvers.ts";
import { RULE_TYPE_NAMES, type RuleDraft } from "./rule-draft.ts";

const CONDITIONAL = [RuleType.ARGUMENT, RuleType.METADATA];
const SEQUENCE = [RuleType.SEQUENCE];
const EXCLUDING = [RuleType.ACTION, RuleType.SEQUENCE];
const SCHEDULE = [RuleType.SCHEDULE];
const SEMANTIC = [RuleType.SEMANTIC];
const PROVENANCE = [RuleType.PROVENANCE];

/** Rule types that never allow: neither a mismatch, a model's opinion nor the origin of a value lets an action pass. */
export const NEVER_ALLOW: ReadonlySet<RuleType> = new Set([RuleType.SCHEMA, RuleType.SEMANTIC, RuleType.PROVENANCE]);

/** Fields of the conditions, with the rule types they apply to; `match_action_types` applies to all. */
export const CONDITION_FIELDS: readonly (readonly [string, readonly RuleType[], (given: Conditions) => boolean])[] = [
  ["operator", CONDITIONAL, (given) => given.operator !== ""],
  ["rules", CONDITIONAL, (given) => given.rules.length > 0],
  ["mode", SEQUENCE, (given) => given.mode !== SequenceMode.UNSPECIFIED],
  ["max_count", SEQUENCE, (given) => given.maxCount !== undefined],
  ["window_seconds", SEQUENCE, (given) => given.windowSeconds !== undefined],
  ["scope", SEQUENCE, (given) => given.scope !== Scope.UNSPECIFIED],
  ["department_id", SEQUENCE, (given) => given.departmentId !== undefined],
  ["count_decisions", SEQUENCE, (given) => given.countDecisions.length > 0],
  ["count_outcomes", SEQUENCE, (given) => given.countOutcomes.length > 0],
  ["exclude_action_types", EXCLUDING, (given) => given.excludeActionTypes.length > 0],
  ["steps", SEQUENCE, (given) => given.steps.length > 0],
  ["sums", SEQUENCE, (given) => given.sums.length > 0],
  ["currency", SEQUENCE, (given) => given.currency !== undefined],
  ["max_total", SEQUENCE, (given) => given.maxTotal !== undefined],
  ["other_currency", SEQUENCE, (given) => given.otherCurrency !== OtherCurrency.UNSPECIFIED],
  ["release", SEQUENCE, (given) => given.release !== BudgetRelease.UNSPECIFIED],
  ["patterns", [RuleType.CONTENT], (given) => given.patterns.length > 0],
  ["below", [RuleType.TRUST], (given) => given.below !== undefined],
  ["time_zone", SCHEDULE, (given) => given.timeZone !== undefined],
  ["days", SCHEDULE, (given) => given.days.length > 0],
  ["from", SCHEDULE, (given) => given.from !== undefined],
  ["to", SCHEDULE, (given) => given.to !== undefined],
  ["outside", SCHEDULE, (given) => given.outside],
  ["prompt", SEMANTIC, (given) => given.prompt !== undefined],
  ["min_confidence", SEMANTIC, (given) => given.minConfidence !== undefined],
  ["on_unavailable", SEMANTIC, (given) => given.onUnavailable !== Decision.UNSPECIFIED],
  ["timeout_ms", SEMANTIC, (given) => given.timeoutMs !== undefined],
  ["arguments", PROVENANCE, (given) => given.arguments.length > 0],
  ["trusted", PROVENANCE, (given) => given.trusted.length > 0],
  ["fires", PROVENANCE, (given) => given.fires !== ProvenanceFires.UNSPECIFIED],
];

/** Checks the fields that every rule type has in common. */
export function checkFields(draft: RuleDraft): void {
  checkDecision(draft);
  checkEscalationTtl(draft);
  checkApprovers(draft);
  checkApplicable(draft);
  checkActionTypes(draft);
}

function checkDecision({ type, decision, conditions, path, violations }: RuleDraft): void {
  const isBudget = type === RuleType.SEQUENCE && conditions.mode === SequenceMode.BUDGET;
  if (decision !== "allow" || !(NEVER_ALLOW.has(type) || isBudget)) return;
  const rule = isBudget ? "a budget" : `a rule of type \`${RULE_TYPE_NAMES.get(type)}\``;
  const message = `${rule} decides \`block\` or \`escalate\``;
  violations.add(`${path}.decision`, "DECISION_NOT_FITTING", message);
}

/** A semantic rule that blocks may still escalate when the guard gives no verdict. */
function checkEscalationTtl({ rule, type, decision, path, violations }: RuleDraft): void {
  if (rule.escalationTtlSeconds === undefined || decision === "escalate" || type === RuleType.SEMANTIC) return;
  const message = `\`escalation_ttl_seconds\` does not apply to a rule that decides \`${decision}\``;
  violations.add(`${path}.escalation_ttl_seconds`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}

function checkApplicable({ type, conditions, path, violations }: RuleDraft): void {
  for (const [name, types, isSet] of CONDITION_FIELDS) {
    if (types.includes(type) || !isSet(conditions)) continue;
    const owners = types.map((owner) => `\`${RULE_TYPE_NAMES.get(owner)}\``).join(" and ");
    const message = `\`${name}\` does not apply to a rule of type \`${RULE_TYPE_NAMES.get(type)}\`; it belongs to ${owners}`;
    violations.add(`${path}.conditions.${name}`, "CONDITION_FIELD_NOT_APPLICABLE", message);
  }
}

function checkActionTypes({ rule, type, conditions, path, violations }: RuleDraft): void {
  const at = `${path}.conditions.match_action_types`;
  const stepsAt = `${path}.conditions.steps`;
  const isOther =
    conditions.mode === SequenceMode.ORDERED || conditions.mode === SequenceMode.BUDGET || conditions.sums.length > 0;
  const isVelocity = type === RuleType.SEQUENCE && !isOther;
  const isRequired =
    (type === RuleType.ACTION && rule.when === undefined) || (isVelocity && conditions.steps.length === 0);
  if (isRequired && conditions.matchActionTypes.length === 0) {
    const message = `a rule of type \`${RULE_TYPE_NAMES.get(type)}\` needs action types such as \`payment.*\`${type === RuleType.ACTION ? " or `when`" : ""}`;
    violations.add(at, "MATCH_MISSING", message);
  }
  checkPatterns(conditions.matchActionTypes, at, violations);
  checkPatterns(conditions.excludeActionTypes, `${path}.conditions.exclude_action_types`, violations);
  const isOrdered = conditions.mode === SequenceMode.ORDERED;
  checkExcluded(
    isOrdered ? conditions.steps : conditions.matchActionTypes,
    isOrdered ? stepsAt : at,
    conditions,
    violations,
  );
}

/** Notes every pattern of which nothing is left: an exclusion covers it whole. */
function checkExcluded(
  patterns: readonly string[],
  at: string,
  { excludeActionTypes }: Conditions,
  violations: Violations,
): void {
  for (const [index, pattern] of patterns.entries()) {
    const excluding = excludeActionTypes.find((each) => coversPattern(normaliseName(each), normaliseName(pattern)));
    if (excluding === undefined) continue;
    const message = `covers no action type, because \`${excluding.trim()}\` excludes them all; remove one of the two`;
    violations.add(`${at}[${index}]`, "MATCH_EXCLUDED", message);
  }
}

/** Notes every action-type pattern that is invalid. */
export function checkPatterns(patterns: readonly string[], at: string, violations: Violations): void {
  patterns.forEach((pattern, index) => {
    const fault = patternFault(pattern);
    if (fault === undefined) return;
    const message = `is not an action type or a pattern of action types: it ${fault}`;
    violations.add(`${at}[${index}]`, "MATCH_INVALID", message);
  });
}
