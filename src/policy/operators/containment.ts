import { type Comparable, comparableFrom, comparableText, comparableTextFrom } from "../comparable.ts";
import { ARRAY, STRING } from "../json-type.ts";
import { negated, type Operand, type Operator, operandList, type Test } from "./operator.ts";

type Has = (wanted: Comparable) => boolean;
type Quantifier = (wanted: readonly Comparable[], has: Has) => boolean;

const some: Quantifier = (wanted, has) => wanted.some(has);
const every: Quantifier = (wanted, has) => wanted.every(has);

function typed(quantifier: Quantifier): (operand: Operand) => Test {
  return (operand) => {
    const wanted = operandList(operand).map((item) => comparableFrom(item) ?? "");
    return (value) => {
      if (Array.isArray(value)) return quantifier(wanted, memberOf(value.map(comparableFrom)));
      return typeof value === "string" && quantifier(wanted, partOf(comparableText(value)));
    };
  };
}

function untyped(quantifier: Quantifier): (operand: Operand) => Test {
  return (operand) => {
    const wanted = operandList(operand).map(comparableTextFrom);
    return (value) => {
      if (Array.isArray(value)) return quantifier(wanted, memberOf(value.map(comparableTextFrom)));
      return quantifier(wanted, partOf(comparableTextFrom(value)));
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

const CONTAINS = containment("contains", some, "not containing");

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
  containment("contains_any", some, "containing none of"),
  containment("contains_all", every, "not containing all of"),
];
