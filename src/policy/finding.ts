import type { CompiledCondition } from "./compiled-condition.ts";
import { CODE_BY_OUTCOME, CURRENCY_DIFFERS, CURRENCY_MISSING, MISSING, type Outcome, WRONG_TYPE } from "./outcome.ts";
import type { Finding, FindingCode } from "./types.ts";

/** A sentence about a rule, led by the rule's own description if it has one. */
export function sentence(description: string | undefined, text: string): string {
  return description === undefined || description.trim() === "" ? text : `${description.trim()}: ${text}`;
}

/** Why a rule without conditions on arguments fires. */
export function plainFinding(code: FindingCode, message: string, rule: string): Finding {
  return { code, message, rule };
}

/** Why a rule fires because of a condition; `wouldPass` is left out where nothing would. */
export function conditionFinding(
  condition: CompiledCondition,
  outcome: Outcome,
  description: string | undefined,
  wouldPass: string | undefined,
): Finding {
  const finding = {
    code: CODE_BY_OUTCOME[outcome],
    message: sentence(description, conditionMessage(condition, outcome)),
    rule: condition.path,
    argument: condition.field,
  };
  return wouldPass === undefined ? finding : { ...finding, wouldPass };
}

function conditionMessage(condition: CompiledCondition, outcome: Outcome): string {
  switch (outcome) {
    case MISSING:
      return `\`${condition.field}\` is missing`;
    case WRONG_TYPE:
      return `\`${condition.field}\` is not ${condition.types}`;
    case CURRENCY_MISSING:
      return `\`${condition.field}\` comes without a currency`;
    case CURRENCY_DIFFERS:
      return `\`${condition.field}\` is not in ${condition.currency}`;
    default:
      return `\`${condition.text.holds}\` holds`;
  }
}
