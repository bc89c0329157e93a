import type { Value } from "@bufbuild/protobuf/wkt";
import { comparableText } from "./comparable.ts";
import type { Operand, ValueShape } from "./operators/index.ts";
import { compileRe2 } from "./re2-pattern.ts";
import type { RuleViolationReason } from "./violation-reasons.ts";

/** A rule's value as an operand, or why it cannot be one. */
export type OperandResult =
  | { readonly kind: "operand"; readonly operand: Operand }
  | { readonly kind: "refused"; readonly reason: RuleViolationReason; readonly message: string };

type Scalar = string | number | boolean;

const NEEDS: Readonly<Record<ValueShape, string>> = {
  scalar: "a string, number or boolean",
  number: "a number",
  range: "a list of two numbers, the lower one first",
  scalars: "a list of strings, numbers or booleans",
  text: "a string",
  expression: "an RE2 expression in a string",
  count: "a whole number, 0 or more",
  none: "no value",
};

/** Reads a rule's value in the shape that an operator needs. Without a schema, an order may be one of strings too. */
export function operandFrom(value: Value | undefined, shape: ValueShape, isTyped: boolean): OperandResult {
  const read = plainFrom(value);
  if (shape === "none") {
    if (read === undefined || read === null) return { kind: "operand", operand: undefined };
    return refused("VALUE_NOT_APPLICABLE", "the operator takes no value");
  }
  if (read === undefined) return refused("VALUE_MISSING", `the operator needs ${NEEDS[shape]}`);
  if (read === null || !hasShape(read, shape, isTyped)) {
    return refused("VALUE_TYPE", `the value must be ${NEEDS[shape]}`);
  }
  return emptyOrDisordered(read, shape) ?? { kind: "operand", operand: read };
}

function refused(reason: RuleViolationReason, message: string): OperandResult {
  return { kind: "refused", reason, message };
}

// A value that no operator takes, such as an object, comes out as null.
function plainFrom(value: Value | undefined): Scalar | readonly Scalar[] | null | undefined {
  if (value === undefined || value.kind.case === undefined) return undefined;
  if (value.kind.case !== "listValue") return scalarFrom(value);
  const items = value.kind.value.values.map(scalarFrom);
  return items.every((item) => item !== null) ? items : null;
}

function scalarFrom(value: Value): Scalar | null {
  switch (value.kind.case) {
    case "stringValue":
    case "boolValue":
      return value.kind.value;
    case "numberValue":
      return Number.isFinite(value.kind.value) ? value.kind.value : null;
    default:
      return null;
  }
}

function hasShape(value: Scalar | readonly Scalar[], shape: ValueShape, isTyped: boolean): boolean {
  switch (shape) {
    case "scalar":
      return !Array.isArray(value);
    case "number":
      return isOrdered(value, isTyped);
    case "range":
      return Array.isArray(value) && value.length === 2 && isPair(value[0], value[1], isTyped);
    case "scalars":
      return Array.isArray(value);
    case "count":
      return typeof value === "number" && Number.isInteger(value) && value >= 0;
    default:
      return typeof value === "string";
  }
}

function isOrdered(value: unknown, isTyped: boolean): boolean {
  return typeof value === "number" || (!isTyped && typeof value === "string");
}

function isPair(low: unknown, high: unknown, isTyped: boolean): boolean {
  return isOrdered(low, isTyped) && typeof low === typeof high;
}

function emptyOrDisordered(value: Scalar | readonly Scalar[], shape: ValueShape): OperandResult | undefined {
  const isEmptyList = shape === "scalars" && Array.isArray(value) && value.length === 0;
  if (isEmptyList) return refused("VALUE_MISSING", "the list must have at least one value");
  const isBlank = (shape === "text" || shape === "expression") && comparableText(String(value)) === "";
  if (isBlank) return refused("VALUE_MISSING", "a blank text would match everything");
  if (shape === "range" && Array.isArray(value)) return disordered(value[0], value[1]);
  if (shape !== "expression") return undefined;
  const expression = compileRe2(String(value));
  return expression.kind === "compiled"
    ? undefined
    : refused("PATTERN_INVALID", patternMessage(String(value), expression.message));
}

function disordered(low: Scalar | undefined, high: Scalar | undefined): OperandResult | undefined {
  if (low === undefined || high === undefined) return undefined;
  const [from, to] = typeof low === "string" ? [comparableText(low), comparableText(String(high))] : [low, high];
  return from <= to
    ? undefined
    : refused("RANGE_NOT_ORDERED", `\`${low}\` is above \`${high}\`; put the lower end first`);
}

/** What is said of a pattern that does not compile. */
export function patternMessage(pattern: string, cause: string): string {
  return `\`${pattern}\` is not an RE2 expression: ${cause}`;
}
