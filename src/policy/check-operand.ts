import type { JsonValue } from "@bufbuild/protobuf";
import { comparableFrom } from "./comparable.ts";
import { nearest } from "./edit-distance.ts";
import { ARRAY, BOOLEAN, maskFromTypes, NUMBER, STRING, type TypeMask, typeBit, typesFromMask } from "./json-type.ts";
import type { Operand, Operator } from "./operators/index.ts";
import type { FlattenedArgument } from "./types.ts";
import type { Violations } from "./violations.ts";

/** What single values of an operand are compared with: types and enum of the argument itself or of its elements. */
interface Compared {
  readonly types: TypeMask;
  readonly enum: readonly JsonValue[];
  readonly path: string;
}

/** Checks an operand's values against the types and the enum that the schema gives what they are compared with. */
export function checkOperand(
  operand: Operand,
  operator: Operator,
  argument: FlattenedArgument,
  known: ReadonlyMap<string, FlattenedArgument>,
  path: string,
  violations: Violations,
): void {
  if (operand === undefined || (operator.shape !== "scalar" && operator.shape !== "scalars")) return;
  const compared = operator.readsElements ? comparedElements(operator, argument, known) : comparedValues(argument);
  const isList = Array.isArray(operand);
  const values: readonly (string | number | boolean)[] = isList ? operand : [operand as string | number | boolean];
  values.forEach((value, index) => {
    checkValue(value, compared, isList ? `${path}[${index}]` : path, violations);
    if (operator.readsElements) checkPart(value, argument, isList ? `${path}[${index}]` : path, violations);
  });
}

function comparedValues(argument: FlattenedArgument): Compared {
  return { types: maskFromTypes(argument.types), enum: argument.enum, path: argument.path };
}

// In a string, a part is looked for, so the enum of the whole says nothing; an array is compared by its elements.
function comparedElements(
  operator: Operator,
  argument: FlattenedArgument,
  known: ReadonlyMap<string, FlattenedArgument>,
): Compared {
  const types = maskFromTypes(argument.types) & operator.fits;
  const part = types & STRING;
  if ((types & ARRAY) === 0) return { types: part, enum: [], path: argument.path };
  const elements = known.get(`${argument.path}[]`);
  if (elements === undefined) return { types: STRING | NUMBER | BOOLEAN, enum: [], path: argument.path };
  return { types: part | maskFromTypes(elements.types), enum: part ? [] : elements.enum, path: elements.path };
}

function checkValue(value: string | number | boolean, compared: Compared, path: string, violations: Violations): void {
  if ((typeBit(value) & compared.types) === 0) {
    const wanted = typesFromMask(compared.types & (STRING | NUMBER | BOOLEAN)).join(" or ") || "no single value";
    violations.add(path, "VALUE_TYPE", `\`${value}\` is compared with \`${compared.path}\`, which takes ${wanted}`);
    return;
  }
  if (compared.enum.length === 0 || compared.enum.some((allowed) => comparableFrom(allowed) === comparableFrom(value)))
    return;
  const texts = compared.enum.filter((allowed) => typeof allowed === "string");
  const message = `\`${value}\` is not a value that \`${compared.path}\` allows`;
  violations.add(path, "VALUE_NOT_IN_ENUM", message, nearest(String(value), texts));
}

function checkPart(
  value: string | number | boolean,
  argument: FlattenedArgument,
  path: string,
  violations: Violations,
): void {
  const searchesText = (maskFromTypes(argument.types) & STRING) !== 0;
  if (!searchesText || typeof value !== "string" || value.trim() !== "") return;
  violations.add(path, "VALUE_MISSING", "a blank text would be found in every string");
}
