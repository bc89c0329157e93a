import { type Rule, SequenceMode } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { OutcomeStatus as OutcomeStatusEnum } from "../../../gen/agentcontrol/v1/resources_pb.js";
import type { OutcomeStatus } from "../outcome-status.ts";
import type { RuleWarning } from "./approval-warnings.ts";
import type { RuleDraft } from "./rule-draft.ts";
import { groupFrom } from "./sequence-fields.ts";

const STATUSES: ReadonlyMap<OutcomeStatusEnum, OutcomeStatus> = new Map([
  [OutcomeStatusEnum.PENDING, "pending"],
  [OutcomeStatusEnum.SUCCEEDED, "succeeded"],
  [OutcomeStatusEnum.FAILED, "failed"],
  [OutcomeStatusEnum.CANCELLED, "cancelled"],
  [OutcomeStatusEnum.UNKNOWN, "unknown"],
]);
const NAMES = [...STATUSES.values()].map((status) => `\`${status}\``).join(", ");

/**
 * Reads the statuses with which an allowed action counts, sorted; undefined for a rule that names none. Notes a violation for each that is
 * unknown or named before.
 */
export function outcomesFrom({ conditions, path, violations }: RuleDraft): readonly OutcomeStatus[] | undefined {
  const { countOutcomes } = conditions;
  if (countOutcomes.length === 0) return undefined;
  const found = new Set<OutcomeStatus>();
  for (const [index, each] of countOutcomes.entries()) {
    const at = `${path}.conditions.count_outcomes[${index}]`;
    const status = STATUSES.get(each);
    if (status === undefined) violations.add(at, "OUTCOME_UNKNOWN", `an outcome is one of ${NAMES}`);
    else if (found.has(status)) violations.add(at, "OUTCOME_REPEATED", `\`${status}\` is named before`);
    else found.add(status);
  }
  return [...found].sort();
}

/** Notes that a velocity rule with outcomes counts more than allowed actions, which alone have outcomes. */
export function checkCountsAllowed(draft: RuleDraft): void {
  const { countDecisions } = groupFrom(draft.conditions);
  if (countDecisions.length === 1 && countDecisions[0] === "allow") return;
  const message = "allowed actions alone have outcomes: a velocity rule with `count_outcomes` counts `allow` alone";
  draft.violations.add(`${draft.path}.conditions.count_decisions`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}

/** Lists warnings about rules that do not count actions under way, in the order of the rules. */
export function outcomeWarnings(rules: readonly Rule[]): readonly RuleWarning[] {
  return rules.flatMap(({ conditions }, index): RuleWarning[] => {
    const outcomes = conditions?.countOutcomes ?? [];
    if (outcomes.length === 0 || outcomes.includes(OutcomeStatusEnum.PENDING)) return [];
    const what = conditions?.mode === SequenceMode.BUDGET ? "an amount" : "an action";
    const message = `${what} counts only once its outcome is reported: any number may be under way at once; add \`pending\``;
    return [{ path: `rules[${index}].conditions.count_outcomes`, reason: "PENDING_NOT_COUNTED", message }];
  });
}
