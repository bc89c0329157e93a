import type { JsonValue } from "@bufbuild/protobuf";
import { BOOLEAN, comparableFrom, comparableTextFrom, NUMBER, STRING } from "../json-value.ts";
import { type Literal, literalList, negated, type Operator, type Test } from "./operator.ts";

/** Characters past which a text is read as no number. */
const MAX_NUMBER_TEXT = 400;
const SCALAR = STRING | NUMBER | BOOLEAN;

function isOneOf(literal: Literal): Test {
  const wanted = new Set(literalList(literal).map(comparableFrom));
  return (value) => {
    const own = comparableFrom(value);
    return own !== undefined && wanted.has(own);
  };
}

/** Equality of texts, or of numbers where both are numbers: `"5.0"` equals 5 unless that lets an action pass. */
function isOneOfAsText(literal: Literal, isAllow: boolean): Test {
  const wanted = new Set(literalList(literal).map(comparableTextFrom));
  const numbers = new Set(literalList(literal).filter((each) => typeof each === "number"));
  return (value) => {
    const text = comparableTextFrom(value);
    if (wanted.has(text)) return true;
    return !isAllow && numbers.size > 0 && typeof value === "string" && numbers.has(numberFrom(text));
  };
}

/** Inequality, as strict: an `allow` rule needs the texts and the numbers to differ. */
function isNoneOfAsText(literal: Literal, isAllow: boolean): Test {
  const isOne = isOneOfAsText(literal, !isAllow);
  return (value) => !isOne(value);
}

const NUMBER_TEXT = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/;

/** Reads a text, trimmed and in lower case, as a number; NaN if it is none. */
function numberFrom(text: string): number {
  if (text.length > MAX_NUMBER_TEXT || !NUMBER_TEXT.test(text)) return Number.NaN;
  const number = Number(text);
  return Number.isFinite(number) ? number : Number.NaN;
}

function equality(name: string, opposite: string, shape: "scalar" | "scalars"): Operator {
  const passes = (field: string, literal: string) => `${field} ${opposite} ${literal}`;
  return { name, fits: SCALAR, shape, typed: isOneOf, untyped: isOneOfAsText, passes };
}

function inequality(name: string, opposite: string, shape: "scalar" | "scalars"): Operator {
  const { typed, ...rest } = equality(name, opposite, shape);
  return { ...rest, typed: negated(typed), untyped: isNoneOfAsText, untypedMatchesMissing: true };
}

type Ordered = string | number;
type Accepts = (value: Ordered, low: Ordered, high: Ordered) => boolean;

function typedOrder(accepts: Accepts): (literal: Literal) => Test {
  return (literal) => {
    const [low = 0, high = low] = literalList(literal) as readonly number[];
    return (value) => typeof value === "number" && accepts(value, low, high);
  };
}

/**
 * Order of numbers, or of texts. A text that is compared with a number counts in both readings: without a schema nobody says which
 * is meant. A text that is no number holds for a rule that restricts, and never for one that allows.
 */
function untypedOrder(accepts: Accepts): Operator["untyped"] {
  return (literal, isAllow) => {
    const [low = "", high = low] = literalList(literal);
    const [lowText, highText] = [comparableTextFrom(low), comparableTextFrom(high)];
    const numeric = typeof low === "number" && typeof high === "number" ? { low, high } : undefined;
    return (value: JsonValue) => {
      if (numeric === undefined) return accepts(comparableTextFrom(value), lowText, highText);
      if (typeof value === "number") return accepts(value, numeric.low, numeric.high);
      const text = comparableTextFrom(value);
      const number = numberFrom(text);
      if (Number.isNaN(number)) return !isAllow;
      const asNumber = accepts(number, numeric.low, numeric.high);
      return isAllow ? asNumber && accepts(text, lowText, highText) : asNumber || accepts(text, lowText, highText);
    };
  };
}

function order(name: string, opposite: string, accepts: Accepts, shape: "number" | "range" = "number"): Operator {
  const passes = (field: string, literal: string) => `${field} ${opposite} ${literal}`;
  return { name, fits: NUMBER, shape, typed: typedOrder(accepts), untyped: untypedOrder(accepts), passes };
}

/** Operators on single values: equality, and order; the ends of a range belong to it. */
export const COMPARISON_OPERATORS: readonly Operator[] = [
  equality("==", "!=", "scalar"),
  inequality("!=", "==", "scalar"),
  equality("in", "not in", "scalars"),
  inequality("not_in", "in", "scalars"),
  order(">", "<=", (value, low) => value > low),
  order(">=", "<", (value, low) => value >= low),
  order("<", ">=", (value, low) => value < low),
  order("<=", ">", (value, low) => value <= low),
  order("between", "not between", (value, low, high) => value >= low && value <= high, "range"),
  order("not_between", "between", (value, low, high) => value < low || value > high, "range"),
];
