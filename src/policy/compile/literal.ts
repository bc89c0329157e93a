import type { JsonValue } from "@bufbuild/protobuf";
import type { Value } from "@bufbuild/protobuf/wkt";
import { fold } from "../../text/fold.ts";
import {
  ARRAY,
  BOOLEAN,
  comparableFrom,
  INTEGER,
  maskFromTypes,
  NUMBER,
  STRING,
  type TypeMask,
  typeBit,
  typesFromMask,
} from "../json-value.ts";
import { type Literal, type LiteralShape, literalList, type Operator, type Scalar } from "../operators/operator.ts";
import { shortened } from "../patterns.ts";
import type { FlattenedArgument } from "../types.ts";
import type { RuleViolationReason, Violations } from "../violations.ts";

/** The arguments of a tool by their path. */
export type ArgumentIndex = ReadonlyMap<string, FlattenedArgument>;

/** A rule's value as a literal, or the reason why it cannot be one. */
export type LiteralResult =
  | { readonly kind: "literal"; readonly literal: Literal }
  | { readonly kind: "refused"; readonly reason: RuleViolationReason; readonly message: string };

const NEEDS: Readonly<Record<LiteralShape, string>> = {
  scalar: "a string, number or boolean",
  number: "a number",
  range: "a list of two numbers, the lower one first",
  scalars: "a list of strings, numbers or booleans",
  text: "a string",
  expression: "an RE2 expression in a string",
  count: "a whole number, 0 or more",
  list: "the name of a list",
  none: "no value",
};

/** Reads a rule's value in the shape that an operator needs. Without a schema, strings can be ordered too. */
export function literalFrom(value: Value | undefined, shape: LiteralShape, isTyped: boolean): LiteralResult {
  const read = plainFrom(value);
  if (shape === "none") {
    if (read === undefined || read === null) return { kind: "literal", literal: undefined };
    return refused("VALUE_NOT_APPLICABLE", "the operator takes no value");
  }
  if (read === undefined) return refused("VALUE_MISSING", `the operator needs ${NEEDS[shape]}`);
  if (read === null || !hasShape(read, shape, isTyped)) {
    return refused("VALUE_TYPE", `the value must be ${NEEDS[shape]}`);
  }
  return refusalOf(read, shape) ?? { kind: "literal", literal: read };
}

function refused(reason: RuleViolationReason, message: string): LiteralResult {
  return { kind: "refused", reason, message };
}

/** Unwraps a value; null for a form that no operator takes, such as an object. */
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

function hasShape(value: Scalar | readonly Scalar[], shape: LiteralShape, isTyped: boolean): boolean {
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

/** Refuses values of the right shape that would match everything or nothing, and invalid expressions. */
function refusalOf(value: Scalar | readonly Scalar[], shape: LiteralShape): LiteralResult | undefined {
  const [first = "", second = first] = literalList(value);
  if (shape === "scalars" && literalList(value).length === 0) {
    return refused("VALUE_MISSING", "the list must have at least one value");
  }
  if ((shape === "text" || shape === "expression") && fold(String(value)) === "") {
    return refused("VALUE_MISSING", "a blank text would match everything");
  }
  if (shape === "range" && (comparableFrom(first) ?? "") > (comparableFrom(second) ?? "")) {
    return refused("RANGE_NOT_ORDERED", `\`${first}\` is above \`${second}\`; put the lower end first`);
  }
  return undefined;
}

/** Types and enum of the values that a literal is compared with: the argument itself, or its elements. */
interface Compared {
  readonly types: TypeMask;
  readonly enum: readonly JsonValue[];
  readonly path: string;
}

/** Checks a literal against the types and the enum that the schema gives the compared values. */
export function checkLiteral(
  literal: Literal,
  operator: Operator,
  argument: FlattenedArgument,
  known: ArgumentIndex,
  path: string,
  violations: Violations,
): void {
  if (operator.shape === "number" || operator.shape === "range") checkIntegers(literal, argument, path, violations);
  if (operator.shape !== "scalar" && operator.shape !== "scalars") return;
  const compared = operator.readsElements ? comparedElements(operator, argument, known) : comparedValue(argument);
  literalList(literal).forEach((value, index) => {
    const at = operator.shape === "scalars" ? `${path}[${index}]` : path;
    checkValue(value, compared, at, violations);
    if (operator.readsElements) checkPart(value, argument, at, violations);
  });
}

/** Checks the expression of an operator that takes one. */
export function checkExpression(literal: Literal, operator: Operator, path: string, violations: Violations): void {
  if (operator.shape !== "expression" || typeof literal !== "string") return;
  const checked = violations.budget.checkPattern(literal);
  if (checked.kind === "compiled") return;
  violations.add(path, "PATTERN_INVALID", `\`${shortened(literal)}\` ${checked.message}`);
}

/** Refuses integers that a double does not hold exactly, where integers are compared. */
function checkIntegers(
  literal: Literal,
  { path: field, types }: FlattenedArgument,
  path: string,
  violations: Violations,
): void {
  const isInteger = (maskFromTypes(types) & NUMBER) === INTEGER;
  const lost = literalList(literal).find((value) => Number.isInteger(value) && !Number.isSafeInteger(value));
  if (!isInteger || lost === undefined) return;
  violations.add(path, "VALUE_TYPE", `\`${lost}\` is compared with \`${field}\`, an integer, and is beyond 2^53 - 1`);
}

function comparedValue(argument: FlattenedArgument): Compared {
  return { types: maskFromTypes(argument.types), enum: argument.enum, path: argument.path };
}

// In a string any part may be looked for, so the enum of the whole does not apply; an array is compared by its elements.
function comparedElements(operator: Operator, argument: FlattenedArgument, known: ArgumentIndex): Compared {
  const types = maskFromTypes(argument.types) & operator.fits;
  const part = types & STRING;
  if ((types & ARRAY) === 0) return { types: part, enum: [], path: argument.path };
  const elements = known.get(`${argument.path}[]`);
  if (elements === undefined) return { types: STRING | NUMBER | BOOLEAN, enum: [], path: argument.path };
  return { types: part | maskFromTypes(elements.types), enum: part ? [] : elements.enum, path: elements.path };
}

function checkValue(value: Scalar, compared: Compared, path: string, violations: Violations): void {
  if ((typeBit(value) & compared.types) === 0) {
    const wanted = typesFromMask(compared.types & (STRING | NUMBER | BOOLEAN)).join(" or ") || "no single value";
    violations.add(path, "VALUE_TYPE", `\`${value}\` is compared with \`${compared.path}\`, which takes ${wanted}`);
    return;
  }
  const isAllowed = compared.enum.some((allowed) => comparableFrom(allowed) === comparableFrom(value));
  if (compared.enum.length === 0 || isAllowed) return;
  const texts = compared.enum.filter((allowed) => typeof allowed === "string");
  const message = `\`${value}\` is not a value that \`${compared.path}\` allows`;
  violations.add(path, "VALUE_NOT_IN_ENUM", message, violations.budget.nearest(String(value), texts));
}

function checkPart(value: Scalar, argument: FlattenedArgument, path: string, violations: Violations): void {
  const searchesText = (maskFromTypes(argument.types) & STRING) !== 0;
  if (!searchesText || typeof value !== "string" || fold(value) !== "") return;
  violations.add(path, "VALUE_MISSING", "a blank text would be found in every string");
}
