import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { fold } from "../text/fold.ts";
import type { JsonType } from "./types.ts";

/** A set of JSON types as bits. A whole number within ±(2^53 − 1) has the bit INTEGER, any other number FRACTION. */
export type TypeMask = number;

export const STRING = 1;
const FRACTION = 2;
export const INTEGER = 4;
export const BOOLEAN = 8;
export const ARRAY = 16;
export const OBJECT = 32;
export const NULL = 64;
export const NUMBER: TypeMask = FRACTION | INTEGER;
export const ANY_TYPE: TypeMask = STRING | NUMBER | BOOLEAN | ARRAY | OBJECT | NULL;

const MASK_BY_TYPE: ReadonlyMap<string, TypeMask> = new Map<JsonType, TypeMask>([
  ["array", ARRAY],
  ["boolean", BOOLEAN],
  ["integer", INTEGER],
  ["null", NULL],
  ["number", NUMBER],
  ["object", OBJECT],
  ["string", STRING],
]);

/** Converts JSON Schema type names to bits; unknown names add nothing. */
export function maskFromTypes(types: Iterable<unknown>): TypeMask {
  let mask = 0;
  for (const type of types) mask |= (typeof type === "string" && MASK_BY_TYPE.get(type)) || 0;
  return mask;
}

/** Converts bits to JSON Schema type names, sorted; `number` stands for whole numbers too. */
export function typesFromMask(mask: TypeMask): readonly JsonType[] {
  const types: JsonType[] = [];
  if (mask & ARRAY) types.push("array");
  if (mask & BOOLEAN) types.push("boolean");
  if (mask & INTEGER && !(mask & FRACTION)) types.push("integer");
  if (mask & NULL) types.push("null");
  if (mask & FRACTION) types.push("number");
  if (mask & OBJECT) types.push("object");
  if (mask & STRING) types.push("string");
  return types;
}

/** Returns the bit of a value's type; 0 for values outside of JSON, such as a number that is not finite. */
export function typeBit(value: unknown): TypeMask {
  switch (typeof value) {
    case "string":
      return STRING;
    case "number":
      // Beyond 2^53 a double no longer tells which integer was meant.
      return Number.isSafeInteger(value) ? INTEGER : Number.isFinite(value) ? FRACTION : 0;
    case "boolean":
      return BOOLEAN;
    case "object":
      return value === null ? NULL : Array.isArray(value) ? ARRAY : OBJECT;
    default:
      return 0;
  }
}

/** Names the type of a value for people: `text`, `number`, `list`. */
export function typeWord(value: JsonValue): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return "a number beyond 2^53 - 1";
  return TYPE_WORDS[typeof value] ?? "an object";
}

const TYPE_WORDS: Readonly<Record<string, string>> = { string: "text", number: "a number", boolean: "a boolean" };

/** Narrows a value to a JSON object: neither null nor an array. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns an object's own member, never its prototype's; undefined if it is missing. */
export function ownValue(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** A scalar in the form in which rules compare it: numbers and booleans as they are, strings folded. */
export type Comparable = string | number | boolean;

/** Converts a value to the form in which it is compared; undefined for null, arrays and objects, which equal nothing. */
export function comparableFrom(value: JsonValue): Comparable | undefined {
  if (typeof value === "string") return fold(value);
  return typeof value === "number" || typeof value === "boolean" ? value : undefined;
}

/**
 * Converts any value to text, for rules without a schema that compare values of different types. Strings stay as they are;
 * arrays and objects become JSON, or an empty text if they are nested too deep to write.
 */
export function textFrom(value: JsonValue): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return "";
  }
}

/** Converts any value to folded text. */
export function comparableTextFrom(value: JsonValue): string {
  return fold(textFrom(value));
}
