import type { JsonValue } from "@bufbuild/protobuf";
import { BOOLEAN, comparableFrom, comparableTextFrom, NUMBER, STRING } from "../json-value.ts";
import { type Literal, literalList, negated, type Operator, type Test } from "./operator.ts";

const SCALAR = STRING | NUMBER | BOOLEAN;

function isOneOf(literal: Literal): Test {
  const wanted = new Set(literalList(literal).map(comparableFrom));
  return (value) => {
    const own = comparableFrom(value);
    return own !== undefined && wanted.has(own);
  };
}

function isOneOfAsText(literal: Literal): Test {
  const wanted = new Set(literalList(literal).map(comparableTextFrom));
  return (value) => wanted.has(comparableTextFrom(value));
}

function equality(name: string, opposite: string, shape: "scalar" | "scalars"): Operator {
  const passes = (field: string, literal: string) => `${field} ${opposite} ${literal}`;
  return { name, fits: SCALAR, shape, typed: isOneOf, untyped: isOneOfAsText, passes };
}

function inequality(name: string, opposite: string, shape: "scalar" | "scalars"): Operator {
  const { typed, untyped, ...rest } = equality(name, opposite, shape);
  return { ...rest, typed: negated(typed), untyped: negated(untyped), untypedMatchesMissing: true };
}

type Ordered = string | number;
type Accepts = (value: Ordered, low: Ordered, high: Ordered) => boolean;

function typedOrder(accepts: Accepts): (literal: Literal) => Test {
  return (literal) => {
    const [low = 0, high = low] = literalList(literal) as readonly number[];
    return (value) => typeof value === "number" && accepts(value, low, high);
  };
}

function untypedOrder(accepts: Accepts): (literal: Literal) => Test {
  return (literal) => {
    const [low = "", high = low] = literalList(literal);
    const [lowText, highText] = [comparableTextFrom(low), comparableTextFrom(high)];
    const numeric = typeof low === "number" && typeof high === "number" ? { low, high } : undefined;
    return (value: JsonValue) =>
      typeof value === "number" && numeric !== undefined
        ? accepts(value, numeric.low, numeric.high)
        : accepts(comparableTextFrom(value), lowText, highText);
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
