import { comparableFrom, comparableTextFrom } from "../comparable.ts";
import { BOOLEAN, NUMBER, STRING } from "../json-type.ts";
import { negated, type Operand, type Operator, operandList, type Test } from "./operator.ts";

const FITS = STRING | NUMBER | BOOLEAN;

function isOneOf(operand: Operand): Test {
  const wanted = new Set(operandList(operand).map(comparableFrom));
  return (value) => {
    const own = comparableFrom(value);
    return own !== undefined && wanted.has(own);
  };
}

function isOneOfAsText(operand: Operand): Test {
  const wanted = new Set(operandList(operand).map(comparableTextFrom));
  return (value) => wanted.has(comparableTextFrom(value));
}

/** `==`, `!=`, `in` and `not_in`. */
export const EQUALITY_OPERATORS: readonly Operator[] = [
  {
    name: "==",
    fits: FITS,
    shape: "scalar",
    typed: isOneOf,
    untyped: isOneOfAsText,
    passes: (field, operand) => `${field} != ${operand}`,
  },
  {
    name: "!=",
    fits: FITS,
    shape: "scalar",
    typed: negated(isOneOf),
    untyped: negated(isOneOfAsText),
    passes: (field, operand) => `${field} == ${operand}`,
    untypedMatchesMissing: true,
  },
  {
    name: "in",
    fits: FITS,
    shape: "scalars",
    typed: isOneOf,
    untyped: isOneOfAsText,
    passes: (field, operand) => `${field} not in ${operand}`,
  },
  {
    name: "not_in",
    fits: FITS,
    shape: "scalars",
    typed: negated(isOneOf),
    untyped: negated(isOneOfAsText),
    passes: (field, operand) => `${field} in ${operand}`,
    untypedMatchesMissing: true,
  },
];
