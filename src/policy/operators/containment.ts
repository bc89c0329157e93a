import type { JsonValue } from "@bufbuild/protobuf";
import { TOO_LONG } from "../checks.ts";
import type { Comparisons } from "../comparisons.ts";
import { ARRAY, type Comparable, comparableFrom, comparableTextFrom, STRING } from "../json-value.ts";
import { type Literal, literalList, negated, type Operator, type Test } from "./operator.ts";

type Quantifier = "some" | "every";

function typedContainment(quantifier: Quantifier): (literal: Literal) => Test {
  return (literal) => {
    const wanted = literalList(literal).map((item) => comparableFrom(item) ?? "");
    return (value, { comparisons }) => {
      if (!Array.isArray(value)) return typeof value === "string" && inText(wanted, quantifier, value, comparisons);
      const members = comparisons.scalarsOf(value);
      return wanted[quantifier]((each) => members.has(each));
    };
  };
}

function untypedContainment(quantifier: Quantifier): (literal: Literal) => Test {
  return (literal) => {
    const wanted = literalList(literal).map(comparableTextFrom);
    return (value, { comparisons }) => {
      if (!Array.isArray(value)) return inText(wanted, quantifier, comparisons.textFrom(value), comparisons);
      const members = comparisons.textsOf(value);
      return wanted[quantifier]((each) => members.has(each));
    };
  };
}

/** Looks for parts in a text, ignoring case. */
function inText(
  wanted: readonly Comparable[],
  quantifier: Quantifier,
  text: string,
  comparisons: Comparisons,
): ReturnType<Test> {
  const folded = comparisons.comparableTextFrom(text);
  if (!comparisons.reads(folded, wanted.length)) return TOO_LONG;
  return wanted[quantifier]((each) => typeof each === "string" && folded.includes(each));
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

type ElementsOf = (list: readonly JsonValue[], comparisons: Comparisons) => ReadonlySet<Comparable | undefined>;

const scalarsOf: ElementsOf = (list, comparisons) => comparisons.scalarsOf(list);
const textsOf: ElementsOf = (list, comparisons) => comparisons.textsOf(list);

function isSubset(
  normalise: (value: JsonValue) => Comparable | undefined,
  elementsOf: ElementsOf,
): (literal: Literal) => Test {
  return (literal) => {
    const allowed = new Set(literalList(literal).map(normalise));
    return (value, { comparisons }) => {
      for (const each of elementsOf(Array.isArray(value) ? value : [value], comparisons)) {
        if (!allowed.has(each)) return false;
      }
      return true;
    };
  };
}

/** Number of reads of a text that counting its code points costs. */
const COUNTING_READS = 4;

/** Counts the elements of an array, or the Unicode code points of a text; in place, because a text may be long. */
function lengthOf(value: JsonValue, comparisons: Comparisons): number | typeof TOO_LONG {
  if (Array.isArray(value)) return value.length;
  const text = comparisons.textFrom(value);
  if (!comparisons.reads(text, COUNTING_READS)) return TOO_LONG;
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
    return (value, { comparisons }) => {
      const own = lengthOf(value, comparisons);
      return own === TOO_LONG ? TOO_LONG : accepts(own, limit);
    };
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
    typed: isSubset(comparableFrom, scalarsOf),
    untyped: isSubset(comparableTextFrom, textsOf),
    readsElements: true,
  },
];

/** Operators on the length: code points of a string as given, elements of an array. */
export const LENGTH_OPERATORS: readonly Operator[] = [
  length("length_gt", (own, limit) => own > limit),
  length("length_lt", (own, limit) => own < limit),
];
