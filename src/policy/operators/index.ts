import { CONTAINMENT_OPERATORS } from "./containment.ts";
import { EQUALITY_OPERATORS } from "./equality.ts";
import { LENGTH_OPERATORS } from "./length.ts";
import type { Operator } from "./operator.ts";
import { ORDER_OPERATORS } from "./order.ts";
import { PRESENCE_OPERATORS } from "./presence.ts";
import { SUBSET_OPERATORS } from "./subset.ts";
import { TEXT_OPERATORS } from "./text.ts";

export type { Operand, Operator, ValueShape } from "./operator.ts";

/** Every operator of conditions by its name. */
export const OPERATORS: ReadonlyMap<string, Operator> = new Map(
  [
    ...EQUALITY_OPERATORS,
    ...ORDER_OPERATORS,
    ...CONTAINMENT_OPERATORS,
    ...SUBSET_OPERATORS,
    ...TEXT_OPERATORS,
    ...LENGTH_OPERATORS,
    ...PRESENCE_OPERATORS,
  ].map((operator) => [operator.name, operator]),
);

/** The names of all operators. */
export const OPERATOR_NAMES: readonly string[] = [...OPERATORS.keys()];
