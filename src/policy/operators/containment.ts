import { type Comparable, comparableFrom, comparableText, comparableTextFrom } from "../comparable.ts";
import { ARRAY, STRING } from "../json-type.ts";
import { negated, type Operand, type Operator, operandList, type Test } from "./operator.ts";

type Has = (wanted: Comparable) => boolean;
type Quantifier = "some" | "every";

function typed(quantifier: Quantifier): (operand: Operand) => Test {
  return (operand) => {
    const wanted = operandList(operand).map((item) => comparableFrom(item) ?? "");
    return (value) => {
      if (Array.isArray(value)) return wanted[quantifier](memberOf(value.map(comparableFrom)));
      return typeof value === "string" && wanted[quantifier](partOf(comparableText(value)));
    };
  };
}

function untyped(quantifier: Quantifier): (operand: Operand) => Test {
  return (operand) => {
    const wanted = operandList(operand).map(comparableTextFrom);
    return (value) => {
      if (Array.isArray(value)) return wanted[quantifier](memberOf(value.map(comparableTextFrom)));
      return wanted[quantifier](partOf(comparableTextFrom(value)));
    };
  };
}

function memberOf(elements: readonly (Comparable | undefined)[]): Has {
  const known = new Set(elements);
  return (wanted) => known.has(wanted);
}

function partOf(text: string): Has {
  return (wanted) => typeof wanted === "string" && text.includes(wanted);
}

function containment(name: string, quantifier: Quantifier, passes: string): Operator {
  return {
    name,
    fits: STRING | ARRAY,
    shape: name === "contains" ? "scalar" : "scalars",
    typed: typed(quantifier),
    untyped: untyped(quantifier),
    passes: (field, operand) => `${field} ${passes} ${operand}`,
    readsElements: true,
  };
}

const CONTAINS = containment("contains", "some", "not containing");

/** `contains`, `not_contains`, `contains_any` and `contains_all`: parts of strings, elements of arrays. */
export const CONTAINMENT_OPERATORS: readonly Operator[] = [
  CONTAINS,
  {
    ...CONTAINS,
    name: "not_contains",
    typed: negated(CONTAINS.typed),
    untyped: negated(CONTAINS.untyped),
    passes: (field, operand) => `${field} containing ${operand}`,
  },
  containment("contains_any", "some", "containing none of"),
  containment("contains_all", "every", "not containing all of"),
];
