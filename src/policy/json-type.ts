import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { JsonType } from "./types.ts";

/** A set of JSON types as bits. A whole number has the bit INTEGER, any other number FRACTION. */
export type TypeMask = number;

export const STRING = 1;
export const FRACTION = 2;
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

/** The bits of JSON Schema type names; names that are none add nothing. */
export function maskFromTypes(types: Iterable<unknown>): TypeMask {
  let mask = 0;
  for (const type of types) mask |= (typeof type === "string" && MASK_BY_TYPE.get(type)) || 0;
  return mask;
}

/** The JSON Schema type names of a set, sorted; `number` stands for whole numbers too. */
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

/** The bit of a value's type; 0 for what JSON cannot hold, a number that is not finite included. */
export function typeBit(value: unknown): TypeMask {
  switch (typeof value) {
    case "string":
      return STRING;
    case "number":
      return Number.isInteger(value) ? INTEGER : Number.isFinite(value) ? FRACTION : 0;
    case "boolean":
      return BOOLEAN;
    case "object":
      return value === null ? NULL : Array.isArray(value) ? ARRAY : OBJECT;
    default:
      return 0;
  }
}

/** Whether a value is a JSON object: neither null nor an array. */
export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A member of an object itself, never of its prototype; undefined when there is none. */
export function ownValue(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
