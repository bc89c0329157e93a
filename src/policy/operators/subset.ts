import type { JsonValue } from "@bufbuild/protobuf";
import { type Comparable, comparableFrom, comparableTextFrom } from "../comparable.ts";
import { ARRAY } from "../json-type.ts";
import { type Operand, type Operator, operandList, type Test } from "./operator.ts";

function isSubset(normalise: (value: JsonValue) => Comparable | undefined): (operand: Operand) => Test {
  return (operand) => {
    const allowed = new Set(operandList(operand).map(normalise));
    const isAllowed = (value: JsonValue): boolean => allowed.has(normalise(value));
    return (value) => (Array.isArray(value) ? value.every(isAllowed) : isAllowed(value));
  };
}

/** `subset_of`: every element of an array is in the list; an empty array is a subset of any. */
export const SUBSET_OPERATORS: readonly Operator[] = [
  {
    name: "subset_of",
    fits: ARRAY,
    shape: "scalars",
    typed: isSubset(comparableFrom),
    untyped: isSubset(comparableTextFrom),
    passes: (field, operand) => `${field} with an element outside ${operand}`,
    readsElements: true,
  },
];
