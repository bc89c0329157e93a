import { type Json, type PathStep, splitPath } from "./naive/naive-conditions.ts";
import type { NaivePatterns } from "./naive/naive-patterns.ts";
import { naiveFits, resolve, UnknownKeyword } from "./naive/naive-schema.ts";
import { sampleText } from "./sample-text.ts";

type JsonObject = { [key: string]: Json };

/** Maximum levels of a sample; a schema may refer to itself. */
const MAX_DEPTH = 8;
const FORMAT_SAMPLES: ReadonlyMap<string, string> = new Map([
  ["date", "2025-01-07"],
  ["date-time", "2025-01-07T10:00:00Z"],
  ["time", "10:00:00Z"],
  ["email", "someone@example.com"],
  ["hostname", "example.com"],
  ["ipv4", "192.0.2.1"],
  ["ipv6", "2001:db8::1"],
  ["uri", "https://example.com/"],
  ["uuid", "00000000-0000-4000-8000-000000000000"],
]);

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function numberFor(schema: JsonObject): number {
  const step = typeof schema.multipleOf === "number" ? schema.multipleOf : 1;
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  if (typeof minimum === "number") return Math.ceil(minimum / step) * step;
  if (typeof exclusiveMinimum === "number") return (Math.floor(exclusiveMinimum / step) + 1) * step;
  if (typeof maximum === "number") return Math.min(step, Math.floor(maximum / step) * step);
  if (typeof exclusiveMaximum === "number") return Math.min(step, (Math.ceil(exclusiveMaximum / step) - 1) * step);
  return step;
}

function textFor(schema: JsonObject, patterns: NaivePatterns): string {
  const { pattern, format, minLength } = schema;
  if (typeof pattern === "string") return sampleText(pattern, patterns, { ignoreCase: false }) ?? "sample";
  const formatted = typeof format === "string" ? FORMAT_SAMPLES.get(format) : undefined;
  if (formatted !== undefined) return formatted;
  const text = "sample".padEnd(typeof minLength === "number" ? Math.min(minLength, 1_000) : 0, "x");
  return typeof schema.maxLength === "number" ? text.slice(0, schema.maxLength) : text;
}

/** Writes the plainest value that a schema describes; it may not fit, where keywords depend on each other. */
function sampleOf(given: Json, root: JsonObject, patterns: NaivePatterns, depth: number): Json {
  if (!isObject(given) || depth > MAX_DEPTH) return null;
  const schema = merged(given, root, depth);
  if (schema.const !== undefined) return schema.const;
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum[0] as Json;
  const isShaped = schema.properties !== undefined || schema.required !== undefined;
  const [type = isShaped ? "object" : "string"] = [schema.type ?? []].flat() as string[];
  if (type === "object") return sampleObject(schema, root, patterns, depth);
  if (type === "array") {
    const length = typeof schema.minItems === "number" ? Math.min(schema.minItems, 20) : 1;
    return Array.from({ length: Math.max(length, 1) }, () => sampleOf(schema.items ?? {}, root, patterns, depth + 1));
  }
  if (type === "null") return null;
  if (type === "boolean") return true;
  return type === "string" ? textFor(schema, patterns) : numberFor(schema);
}

function sampleObject(schema: JsonObject, root: JsonObject, patterns: NaivePatterns, depth: number): JsonObject {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? (schema.required as string[]) : [];
  // Past some levels only what is required, so that a schema that refers to itself ends.
  const names = depth > 3 ? required : [...new Set([...Object.keys(properties), ...required])];
  return Object.fromEntries(
    names.map((name) => [name, sampleOf(own(properties, name) ?? {}, root, patterns, depth + 1)]),
  );
}

/** Joins a schema with what it refers to, all parts of `allOf`, and the first of `anyOf` and `oneOf`. */
function merged(schema: JsonObject, root: JsonObject, depth: number): JsonObject {
  const choices = [schema.anyOf, schema.oneOf].flatMap((list) => (Array.isArray(list) ? list.slice(0, 1) : []));
  const parts = [...(Array.isArray(schema.allOf) ? schema.allOf : []), ...choices];
  if (typeof schema.$ref === "string") parts.push(resolve(schema.$ref, root));
  let joined: JsonObject = { ...schema };
  if (depth > MAX_DEPTH) return joined;
  for (const part of parts) {
    if (!isObject(part)) continue;
    const other = merged(part, root, depth + 1);
    const properties = { ...(joined.properties as JsonObject), ...(other.properties as JsonObject) };
    const required = [joined.required ?? [], other.required ?? []].flat();
    joined = { ...joined, ...other, ...(Object.keys(properties).length > 0 && { properties }) };
    if (required.length > 0) joined.required = required;
  }
  return joined;
}

/** Returns arguments that fit a schema; undefined if none can be derived. */
export function sampleArguments(schema: JsonObject, patterns: NaivePatterns): JsonObject | undefined {
  try {
    const sample = sampleOf({ ...schema, type: "object" }, schema, patterns, 0);
    return isObject(sample) && naiveFits(schema, sample, patterns) === true ? sample : undefined;
  } catch (error) {
    if (error instanceof UnknownKeyword) return undefined;
    throw error;
  }
}

/** Returns the schema of one path, with references followed; undefined if the document has no schema for the path. */
export function schemaAt(root: JsonObject, path: string): JsonObject | undefined {
  try {
    let schema = merged(root, root, 0);
    for (const { name } of splitPath(path)) {
      const next =
        name === null ? schema.items : isObject(schema.properties) ? own(schema.properties, name) : undefined;
      if (!isObject(next)) return undefined;
      schema = merged(next, root, 0);
    }
    return schema;
  } catch (error) {
    if (error instanceof UnknownKeyword) return undefined;
    throw error;
  }
}

/** Returns a copy of a value with another value at the end of a path; undefined takes the member away. */
export function withValueAt(
  value: Json | undefined,
  [step, ...rest]: readonly PathStep[],
  end: Json | undefined,
): Json {
  if (step === undefined) return end ?? null;
  if (step.name === null) {
    const [first, ...others] = Array.isArray(value) ? value : [];
    return [withValueAt(first, rest, end), ...others];
  }
  const object = isObject(value) ? value : {};
  if (rest.length > 0) return { ...object, [step.name]: withValueAt(own(object, step.name), rest, end) };
  if (end !== undefined) return { ...object, [step.name]: end };
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== step.name));
}

const own = (object: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(object, name) ? object[name] : undefined;
