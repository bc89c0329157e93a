import { Fault, Timestamp, type Value, wordOf } from "./values.ts";

const MIN_INT = -(2n ** 63n);
const MAX_INT = 2n ** 63n - 1n;
/** The first double beyond the ints, either way. */
const INT_END = 2 ** 63;
const SECOND = 1_000_000_000n;

export type Arithmetic = "+" | "-" | "*" | "/" | "%";

/** Narrows a value to a number. */
export const isNumber = (value: Value): value is number | bigint =>
  typeof value === "number" || typeof value === "bigint";

/** Computes with two numbers. An int with a double gives a double. `site`: the expression, for an error. */
export function compute(operator: Arithmetic, left: number | bigint, right: number | bigint, site: string): Value {
  if (typeof left === "bigint" && typeof right === "bigint") return computeInts(operator, left, right, site);
  return computeDoubles(operator, Number(left), Number(right), site);
}

function computeInts(operator: Arithmetic, left: bigint, right: bigint, site: string): Value {
  if (right === 0n && (operator === "/" || operator === "%")) return new Fault(site, "divides by zero");
  const result = intResult(operator, left, right);
  return result < MIN_INT || result > MAX_INT ? new Fault(site, "is beyond the whole numbers of 64 bits") : result;
}

function intResult(operator: Arithmetic, left: bigint, right: bigint): bigint {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "%":
      return left % right;
  }
}

function computeDoubles(operator: Arithmetic, left: number, right: number, site: string): Value {
  if (operator === "%") {
    if (!Number.isInteger(left) || !Number.isInteger(right)) return new Fault(site, "takes whole numbers only");
    return right === 0 ? new Fault(site, "divides by zero") : left % right;
  }
  const result = doubleResult(operator, left, right);
  return Number.isFinite(result) ? result : new Fault(site, "is not a finite number");
}

function doubleResult(operator: Exclude<Arithmetic, "%">, left: number, right: number): number {
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
  }
}

/** Negates a number. */
export function negate(value: Value, site: string): Value {
  if (typeof value === "number") return -value;
  if (typeof value !== "bigint") return new Fault(site, `negates ${wordOf(value)}; \`-\` takes a number`);
  return value === MIN_INT ? new Fault(site, "is beyond the whole numbers of 64 bits") : -value;
}

/** Orders two numbers: below zero if the first is smaller. */
export function orderNumbers(left: number | bigint, right: number | bigint): number {
  if (typeof left === typeof right) return left < right ? -1 : left > right ? 1 : 0;
  return Number(left) - Number(right);
}

/** Returns the whole number that a value is, for an index; undefined if it is none. */
export function wholeFrom(value: Value): number | undefined {
  if (typeof value === "bigint") return Number(value);
  return typeof value === "number" && Number.isInteger(value) ? value : undefined;
}

/** Converts a value to an int. */
export function intFrom(value: Value, site: string): Value {
  switch (typeof value) {
    case "bigint":
      return value;
    case "number":
      // The ends of the ints are no doubles, so a double at an end is beyond it.
      if (!(value > -INT_END && value < INT_END)) return new Fault(site, "is beyond the whole numbers of 64 bits");
      return BigInt(Math.trunc(value));
    case "string": {
      if (!/^[+-]?[0-9]{1,19}$/.test(value)) return new Fault(site, "reads a text that is no whole number");
      const whole = BigInt(value.replace(/^\+/, ""));
      return whole < MIN_INT || whole > MAX_INT ? new Fault(site, "is beyond the whole numbers of 64 bits") : whole;
    }
    default:
      if (value instanceof Timestamp) return floored(value.nanos, SECOND);
      return new Fault(site, `converts ${wordOf(value)}; \`int\` takes a number, a text or a time`);
  }
}

/** A JSON number, as RFC 8259 writes it. */
const JSON_NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
const MAX_NUMBER_TEXT = 400;

/** Converts a value to a double. */
export function doubleFrom(value: Value, site: string): Value {
  if (isNumber(value)) return Number(value);
  if (typeof value !== "string")
    return new Fault(site, `converts ${wordOf(value)}; \`double\` takes a number or a text`);
  const isJson = value.length <= MAX_NUMBER_TEXT && JSON_NUMBER.test(value);
  const number = isJson ? Number(value) : Number.NaN;
  return Number.isFinite(number) ? number : new Fault(site, "reads a text that is no number");
}

/** Divides and rounds down. */
export function floored(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  return value % divisor < 0n ? quotient - 1n : quotient;
}
