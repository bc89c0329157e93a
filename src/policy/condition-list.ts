import type { CompiledCondition } from "./compiled-condition.ts";
import { conditionFinding } from "./finding.ts";
import { HELD, NOT_HELD, type Outcome } from "./outcome.ts";
import type { CompiledRule, Decision, Facts, Finding } from "./types.ts";

/** How the conditions of a rule are joined. */
export interface ConditionList {
  readonly conditions: readonly CompiledCondition[];
  readonly isAnd: boolean;
  readonly decision: Decision;
  readonly description: string | undefined;
}

/**
 * Builds the check of a rule with conditions. For `block` and `escalate` a condition holds if its comparison is true or
 * it is violated; for `allow` only if the comparison is true.
 */
export function createConditionCheck(list: ConditionList): CompiledRule["check"] {
  const isAllow = list.decision === "allow";
  const holds = isAllow
    ? (outcome: Outcome): boolean => outcome === HELD
    : (outcome: Outcome): boolean => outcome !== NOT_HELD;
  const passes = isAllow ? undefined : wouldPass(list.conditions, " or ");
  if (list.isAnd) return (facts) => checkAll(list, holds, passes, facts);
  return (facts) => checkAny(list, holds, isAllow, facts);
}

// Of conditions that all hold, a violated one tells more than a comparison that is true.
function checkAll(
  list: ConditionList,
  holds: (outcome: Outcome) => boolean,
  passes: string | undefined,
  facts: Facts,
): Finding | undefined {
  let told = list.conditions[0];
  let toldOutcome: Outcome = HELD;
  for (const condition of list.conditions) {
    const outcome = condition.judge(facts);
    if (!holds(outcome)) return undefined;
    if (toldOutcome === HELD && outcome !== HELD) [told, toldOutcome] = [condition, outcome];
  }
  return told && conditionFinding(told, toldOutcome, list.description, passes);
}

function checkAny(
  list: ConditionList,
  holds: (outcome: Outcome) => boolean,
  isAllow: boolean,
  facts: Facts,
): Finding | undefined {
  const holding: CompiledCondition[] = [];
  let firstOutcome: Outcome = NOT_HELD;
  for (const condition of list.conditions) {
    const outcome = condition.judge(facts);
    if (!holds(outcome)) continue;
    if (holding.length === 0) firstOutcome = outcome;
    holding.push(condition);
  }
  const [first] = holding;
  if (first === undefined) return undefined;
  return conditionFinding(first, firstOutcome, list.description, isAllow ? undefined : wouldPass(holding, " and "));
}

function wouldPass(conditions: readonly CompiledCondition[], joint: string): string {
  return `would allow at ${conditions.map((condition) => condition.text.passes).join(joint)}`;
}
