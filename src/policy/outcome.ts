import type { FindingCode } from "./types.ts";

/** The comparison is false. */
export const NOT_HELD = 0;
/** The comparison is true. */
export const HELD = 1;
/** The argument is not there. */
export const MISSING = 2;
/** The argument has another type than the schema or the operator takes. */
export const WRONG_TYPE = 3;
/** No argument tells the amount's currency. */
export const CURRENCY_MISSING = 4;
/** The amount is in another currency than the rule's. */
export const CURRENCY_DIFFERS = 5;

/** What a condition gives on an action. All but `NOT_HELD` and `HELD` are violations, which fail closed. */
export type Outcome = 0 | 1 | 2 | 3 | 4 | 5;

/** The reason code of each outcome that can make a rule fire. */
export const CODE_BY_OUTCOME: Readonly<Record<Outcome, FindingCode>> = {
  [NOT_HELD]: "CONDITION_HELD",
  [HELD]: "CONDITION_HELD",
  [MISSING]: "ARGUMENT_MISSING",
  [WRONG_TYPE]: "ARGUMENT_WRONG_TYPE",
  [CURRENCY_MISSING]: "CURRENCY_MISSING",
  [CURRENCY_DIFFERS]: "CURRENCY_DIFFERS",
};
