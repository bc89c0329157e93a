import type { ConditionText } from "./condition-text.ts";
import type { Outcome } from "./outcome.ts";
import type { Facts } from "./types.ts";

/** A condition ready to be evaluated. */
export interface CompiledCondition {
  /** Where it stands: `rules[0].conditions.rules[1]`. */
  readonly path: string;
  readonly field: string;
  readonly text: ConditionText;
  /** The types that the argument may have, in words; empty without a schema. */
  readonly types: string;
  /** The currency as shown; undefined when the condition is not bound to one. */
  readonly currency: string | undefined;
  /** MUST NOT throw on any facts. */
  readonly judge: (facts: Facts) => Outcome;
}
