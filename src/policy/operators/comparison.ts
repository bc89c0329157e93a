import type { JsonValue } from "@bufbuild/protobuf";
import type { Checks } from "../checks.ts";
import { BOOLEAN, comparableFrom, comparableTextFrom, NUMBER, STRING } from "../json-value.ts";
import { type Literal, literalList, negated, type Operator, type Test } from "./operator.ts";

/** Step beyond a number with decimals, relative to it. */
const RELATIVE_STEP = 1e-9;
/** Maximum characters of a text that is read as a number. */
const MAX_NUMBER_TEXT = 400;
const SCALAR = STRING | NUMBER | BOOLEAN;

type Predicate = (value: JsonValue, checks: Checks) => boolean;

function isOneOf(literal: Literal): Predicate {
  const wanted = new Set(literalList(literal).map(comparableFrom));
  return (value, { comparisons }) => {
    const own = comparisons.comparableFrom(value);
    return own !== undefined && wanted.has(own);
  };
}

/** Equality of texts, or of numbers where both are numbers: `"5.0"` equals 5 unless that lets an action pass. */
function isOneOfAsText(literal: Literal, isAllow: boolean): Predicate {
  const wanted = new Set(literalList(literal).map(comparableTextFrom));
  const numbers = new Set(literalList(literal).filter((each) => typeof each === "number"));
  return (value, { comparisons }) => {
    const text = comparisons.comparableTextFrom(value);
    if (wanted.has(text)) return true;
    return !isAllow && numbers.size > 0 && typeof value === "string" && numbers.has(numberFrom(text));
  };
}

/** Inequality, as strict: an `allow` rule needs the texts and the numbers to differ. */
function isNoneOfAsText(literal: Literal, isAllow: boolean): Test {
  const isOne = isOneOfAsText(literal, !isAllow);
  return (value, checks) => !isOne(value, checks);
}

const NUMBER_TEXT = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Reads a text as a number; NaN if it is not one. */
function numberFrom(text: string): number {
  const said = text.length > MAX_NUMBER_TEXT ? "" : text.trim();
  const number = NUMBER_TEXT.test(said) ? Number(said) : Number.NaN;
  return Number.isFinite(number) ? number : Number.NaN;
}

type OppositeOf = NonNullable<Operator["opposite"]>;

/** The opposite of equality, where the schema lists the other values. */
function otherThan(relation: string): OppositeOf {
  return (literal, { enum: allowed }) => {
    const excluded = new Set(literalList(literal).map(comparableFrom));
    return { relation, values: allowed.filter((value) => !excluded.has(comparableFrom(value))) };
  };
}

function equality(name: string, relation: string, shape: "scalar" | "scalars"): Operator {
  return { name, fits: SCALAR, shape, typed: isOneOf, untyped: isOneOfAsText, opposite: otherThan(relation) };
}

function inequality(name: string, relation: string, shape: "scalar" | "scalars"): Operator {
  const { typed, ...rest } = equality(name, relation, shape);
  const opposite: OppositeOf = (literal) => ({ relation, values: literalList(literal) });
  return { ...rest, typed: negated(typed), untyped: isNoneOfAsText, untypedMatchesMissing: true, opposite };
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
 * Order of numbers, or of texts. A text that is compared with a number is read both as a text and as a number, because without
 * a schema either may be meant. A text that is not a number holds for a rule that restricts, and never for one that allows.
 */
function untypedOrder(accepts: Accepts): Operator["untyped"] {
  return (literal, isAllow) => {
    const [low = "", high = low] = literalList(literal);
    const [lowText, highText] = [comparableTextFrom(low), comparableTextFrom(high)];
    const numeric = typeof low === "number" && typeof high === "number" ? { low, high } : undefined;
    return (value, { comparisons }) => {
      if (numeric === undefined) return accepts(comparisons.comparableTextFrom(value), lowText, highText);
      if (typeof value === "number") return accepts(value, numeric.low, numeric.high);
      // As given: full-width digits are no number, since not every program reads them as one.
      const number = numberFrom(comparisons.textFrom(value));
      if (Number.isNaN(number)) return !isAllow;
      const text = comparisons.comparableTextFrom(value);
      const asNumber = accepts(number, numeric.low, numeric.high);
      return isAllow ? asNumber && accepts(text, lowText, highText) : asNumber || accepts(text, lowText, highText);
    };
  };
}

/** Returns the values at the ends of a relation, given the literal's ends and the least step of the argument. */
type Ends = (low: number, high: number, step: number) => readonly number[];

function order(
  name: string,
  accepts: Accepts,
  relation: string,
  ends: Ends,
  shape: "number" | "range" = "number",
): Operator {
  const opposite: OppositeOf = (literal, { isInteger }) => {
    const [low = 0, high = low] = literalList(literal) as readonly number[];
    const step = isInteger ? 1 : Math.max(Math.abs(low), Math.abs(high), 1) * RELATIVE_STEP;
    return { relation, values: ends(low, high, step) };
  };
  return { name, fits: NUMBER, shape, typed: typedOrder(accepts), untyped: untypedOrder(accepts), opposite };
}

/** Operators on single values: equality, and order; the ends of a range belong to it. */
export const COMPARISON_OPERATORS: readonly Operator[] = [
  equality("==", "!=", "scalar"),
  inequality("!=", "==", "scalar"),
  equality("in", "not in", "scalars"),
  inequality("not_in", "in", "scalars"),
  order(
    ">",
    (value, low) => value > low,
    "<=",
    (low) => [low],
  ),
  order(
    ">=",
    (value, low) => value >= low,
    "<",
    (low, _, step) => [low - step],
  ),
  order(
    "<",
    (value, low) => value < low,
    ">=",
    (low) => [low],
  ),
  order(
    "<=",
    (value, low) => value <= low,
    ">",
    (low, _, step) => [low + step],
  ),
  order(
    "between",
    (value, low, high) => value >= low && value <= high,
    "not between",
    (low, high, step) => [low - step, high + step],
    "range",
  ),
  order(
    "not_between",
    (value, low, high) => value < low || value > high,
    "between",
    (low, high) => [low, high],
    "range",
  ),
];
