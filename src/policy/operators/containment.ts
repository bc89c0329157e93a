import type { JsonValue } from "@bufbuild/protobuf";
import {
  ARRAY,
  type Comparable,
  comparableFrom,
  comparableText,
  comparableTextFrom,
  STRING,
  textFrom,
} from "../json-value.ts";
import { type Literal, literalList, negated, type Operator, type Test } from "./operator.ts";

type Has = (wanted: Comparable) => boolean;
type Quantifier = "some" | "every";

function typedContainment(quantifier: Quantifier): (literal: Literal) => Test {
  return (literal) => {
    const wanted = literalList(literal).map((item) => comparableFrom(item) ?? "");
    return (value) => {
      if (Array.isArray(value)) return wanted[quantifier](memberOf(value.map(comparableFrom)));
      return typeof value === "string" && wanted[quantifier](partOf(comparableText(value)));
    };
  };
}

function untypedContainment(quantifier: Quantifier): (literal: Literal) => Test {
  return (literal) => {
    const wanted = literalList(literal).map(comparableTextFrom);
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

function containment(name: string, quantifier: Quantifier): Operator {
  return {
    name,
    fits: STRING | ARRAY,
    shape: name === "contains" ? "scalar" : "scalars",
    typed: typedContainment(quantifier),
    untyped: untypedContainment(quantifier),
    readsElements: true,
  };
}

function isSubset(normalise: (value: JsonValue) => Comparable | undefined): (literal: Literal) => Test {
  return (literal) => {
    const allowed = new Set(literalList(literal).map(normalise));
    const isAllowed = (value: JsonValue): boolean => allowed.has(normalise(value));
    return (value) => (Array.isArray(value) ? value.every(isAllowed) : isAllowed(value));
  };
}

/** Elements of an array, or Unicode code points of a text; counted in place, because a text may be long. */
function lengthOf(value: JsonValue): number {
  if (Array.isArray(value)) return value.length;
  const text = textFrom(value);
  let length = text.length;
  for (let index = 0; index < text.length - 1; index++) {
    const isPair = (text.charCodeAt(index) & 0xfc00) === 0xd800 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00;
    if (isPair) length--;
  }
  return length;
}

function length(name: string, accepts: (length: number, limit: number) => boolean): Operator {
  const build = (literal: Literal): Test => {
    const limit = Number(literal);
    return (value) => accepts(lengthOf(value), limit);
  };
  return {
    name,
    fits: STRING | ARRAY,
    shape: "count",
    typed: build,
    untyped: build,
  };
}

const CONTAINS = containment("contains", "some");

/** Operators on the parts of a string or the elements of an array; an empty array is a subset of any. */
export const CONTAINMENT_OPERATORS: readonly Operator[] = [
  CONTAINS,
  {
    ...CONTAINS,
    name: "not_contains",
    typed: negated(CONTAINS.typed),
    untyped: negated(CONTAINS.untyped),
  },
  containment("contains_any", "some"),
  containment("contains_all", "every"),
  {
    name: "subset_of",
    fits: ARRAY,
    shape: "scalars",
    typed: isSubset(comparableFrom),
    untyped: isSubset(comparableTextFrom),
    readsElements: true,
  },
];

/** Operators on the length: code points of a string as given, elements of an array. */
export const LENGTH_OPERATORS: readonly Operator[] = [
  length("length_gt", (own, limit) => own > limit),
  length("length_lt", (own, limit) => own < limit),
];
