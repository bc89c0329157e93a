import { ANY_TYPE } from "../json-value.ts";
import { COMPARISON_OPERATORS } from "./comparison.ts";
import { CONTAINMENT_OPERATORS, LENGTH_OPERATORS } from "./containment.ts";
import { LIST_OPERATORS } from "./lists.ts";
import type { Operator } from "./operator.ts";
import { TEXT_OPERATORS } from "./text.ts";

/** Operators that ask about absence: for them a missing value is not a violation. */
const PRESENCE_OPERATORS: readonly Operator[] = [
  {
    name: "exists",
    fits: ANY_TYPE,
    shape: "none",
    typed: () => () => true,
    untyped: () => () => true,
    whenMissing: false,
  },
  {
    name: "not_exists",
    fits: ANY_TYPE,
    shape: "none",
    typed: () => () => false,
    untyped: () => () => false,
    whenMissing: true,
    untypedMatchesMissing: true,
  },
];

/** Every operator of conditions by its name. */
export const OPERATORS: ReadonlyMap<string, Operator> = new Map(
  [
    ...COMPARISON_OPERATORS,
    ...CONTAINMENT_OPERATORS,
    ...TEXT_OPERATORS,
    ...LENGTH_OPERATORS,
    ...LIST_OPERATORS,
    ...PRESENCE_OPERATORS,
  ].map((operator) => [operator.name, operator]),
);

/** The names of all operators. */
export const OPERATOR_NAMES: readonly string[] = [...OPERATORS.keys()];
