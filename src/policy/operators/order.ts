import type { JsonValue } from "@bufbuild/protobuf";
import { comparableTextFrom } from "../comparable.ts";
import { NUMBER } from "../json-type.ts";
import { type Operand, type Operator, operandList, type Test } from "./operator.ts";

type Ordered = string | number;
type Accepts = (value: Ordered, low: Ordered, high: Ordered) => boolean;

function typed(accepts: Accepts): (operand: Operand) => Test {
  return (operand) => {
    const [low = 0, high = low] = operandList(operand) as readonly number[];
    return (value) => typeof value === "number" && accepts(value, low, high);
  };
}

function untyped(accepts: Accepts): (operand: Operand) => Test {
  return (operand) => {
    const [low = "", high = low] = operandList(operand);
    const [lowText, highText] = [comparableTextFrom(low), comparableTextFrom(high)];
    const numeric = typeof low === "number" && typeof high === "number" ? { low, high } : undefined;
    return (value: JsonValue) =>
      typeof value === "number" && numeric !== undefined
        ? accepts(value, numeric.low, numeric.high)
        : accepts(comparableTextFrom(value), lowText, highText);
  };
}

function order(name: string, opposite: string, accepts: Accepts): Operator {
  return {
    name,
    fits: NUMBER,
    shape: name.endsWith("between") ? "range" : "number",
    typed: typed(accepts),
    untyped: untyped(accepts),
    passes: (field, operand) => `${field} ${opposite} ${operand}`,
  };
}

/** `>`, `>=`, `<`, `<=`, `between` and `not_between`; the ends of a range belong to it. */
export const ORDER_OPERATORS: readonly Operator[] = [
  order(">", "<=", (value, low) => value > low),
  order(">=", "<", (value, low) => value >= low),
  order("<", ">=", (value, low) => value < low),
  order("<=", ">", (value, low) => value <= low),
  order("between", "not between", (value, low, high) => value >= low && value <= high),
  order("not_between", "between", (value, low, high) => value < low || value > high),
];
