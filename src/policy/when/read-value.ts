import type { JsonValue } from "@bufbuild/protobuf";
import type { EvaluationContext } from "../types.ts";
import type { WhenRead } from "./check.ts";
import { textOfTime } from "./time.ts";
import { isMap, keysOf, memberOf, Timestamp, type Value } from "./values.ts";
import { variableOf } from "./variables.ts";

/** Returns the value that an expression reads, as JSON; undefined if it is missing. */
export function valueOfRead({ variable, path }: WhenRead, context: EvaluationContext): JsonValue | undefined {
  let value: Value | undefined = variableOf(variable)?.(context);
  for (const name of path) value = value !== undefined && isMap(value) ? memberOf(value, name) : undefined;
  return value === undefined ? undefined : jsonFrom(value);
}

/** Converts a variable's value: the action's JSON stays as it is, and fixed members become an object. */
function jsonFrom(value: Value): JsonValue {
  if (value instanceof Timestamp) return textOfTime(value);
  if (!(value instanceof Map)) return value as JsonValue;
  return Object.fromEntries(keysOf(value).map((key) => [String(key), jsonFrom(memberOf(value, key) ?? null)]));
}
