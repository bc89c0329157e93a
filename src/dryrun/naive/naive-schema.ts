import type { Json } from "./naive-conditions.ts";
import type { NaivePatterns } from "./naive-patterns.ts";

/*
 * A second validator of JSON Schema for the keywords in `CHECKS`, one function a keyword. A schema with any other keyword is
 * not judged.
 */

type JsonObject = { readonly [key: string]: Json };

/** Keywords without effect on what fits. */
const ANNOTATIONS = [
  "title",
  "description",
  "default",
  "examples",
  "example",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$comment",
  "$schema",
  "$id",
  "$defs",
  "definitions",
  "nullable",
  "discriminator",
];
/** Maximum number of references that one check follows; a schema may refer to itself. */
const MAX_DEPTH = 40;

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** One place in a check: the value, the schema it must fit, and everything around. */
interface Place {
  readonly value: Json;
  readonly schema: JsonObject;
  readonly root: JsonObject;
  readonly patterns: NaivePatterns;
  readonly depth: number;
}

type Check = (operand: Json, place: Place) => boolean;

/** Error for a schema that has a keyword which this validator does not know. */
export class UnknownKeyword extends Error {}

function hasType(type: Json, value: Json): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isSafeInteger(value);
  return typeof value === type;
}

/** Writes a value so that equal values have equal texts. */
function sorted(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${sorted(value[name] ?? null)}`).join()}}`;
}

const ofNumber = (test: (value: number, bound: number) => boolean): Check => {
  return (bound, { value }) => typeof value !== "number" || test(value, Number(bound));
};
const ofText = (test: (length: number, bound: number) => boolean): Check => {
  return (bound, { value }) => typeof value !== "string" || test([...value].length, Number(bound));
};
const ofItems = (test: (length: number, bound: number) => boolean): Check => {
  return (bound, { value }) => !Array.isArray(value) || test(value.length, Number(bound));
};
const ofMembers = (test: (count: number, bound: number) => boolean): Check => {
  return (bound, { value }) => !isObject(value) || test(Object.keys(value).length, Number(bound));
};
const branches = (operand: Json, place: Place): number =>
  (operand as Json[]).filter((schema) => fits({ ...place, schema: schema as JsonObject })).length;

/** Lists the members of an object that `properties` and `patternProperties` beside it do not cover. */
function otherMembers({ value, schema, patterns }: Place): readonly string[] {
  if (!isObject(value)) return [];
  const known = Object.keys(isObject(schema.properties) ? schema.properties : {});
  const shapes = Object.keys(isObject(schema.patternProperties) ? schema.patternProperties : {});
  const isShaped = (name: string): boolean =>
    shapes.some((shape) => patterns.isFound(shape, name, { ignoreCase: false }));
  return Object.keys(value).filter((name) => !known.includes(name) && !isShaped(name));
}

const DATE = /^\d{4}-\d\d-\d\d$/;
const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map<string, (text: string) => boolean>([
  ["date", (text) => DATE.test(text) && new Date(text).toJSON()?.slice(0, 10) === text],
  ["date-time", (text) => /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/.test(text)],
  ["time", (text) => /^\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/.test(text)],
  ["email", (text) => /^[^\s@]+@[\w-]+(\.[\w-]+)*$/.test(text)],
  ["hostname", (text) => /^[\w-]+(\.[\w-]+)*$/.test(text)],
  [
    "ipv4",
    (text) => text.split(".").length === 4 && text.split(".").every((part) => /^\d+$/.test(part) && +part < 256),
  ],
  ["ipv6", (text) => /^[\da-f:]+$/i.test(text) && text.includes("::")],
  ["uri", (text) => /^[a-z][\w+.-]*:\S+$/i.test(text)],
  ["uuid", (text) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text)],
]);

const CHECKS: { readonly [keyword: string]: Check } = {
  type: (types, { value }) => [types].flat().some((type) => hasType(type as Json, value)),
  enum: (allowed, { value }) => (allowed as Json[]).some((one) => sorted(one) === sorted(value)),
  const: (wanted, { value }) => sorted(wanted) === sorted(value),
  minimum: ofNumber((value, bound) => value >= bound),
  maximum: ofNumber((value, bound) => value <= bound),
  exclusiveMinimum: ofNumber((value, bound) => value > bound),
  exclusiveMaximum: ofNumber((value, bound) => value < bound),
  multipleOf: ofNumber((value, step) => Number.isInteger(value / step)),
  minLength: ofText((length, bound) => length >= bound),
  maxLength: ofText((length, bound) => length <= bound),
  pattern: (pattern, { value, patterns }) =>
    typeof value !== "string" || patterns.isFound(String(pattern), value, { ignoreCase: false }),
  format: (format, { value }) => typeof value !== "string" || (FORMATS.get(String(format))?.(value) ?? true),
  minItems: ofItems((length, bound) => length >= bound),
  maxItems: ofItems((length, bound) => length <= bound),
  uniqueItems: (isUnique, { value }) =>
    isUnique !== true || !Array.isArray(value) || new Set(value.map(sorted)).size === value.length,
  items: (schema, place) =>
    !Array.isArray(place.value) || place.value.every((value) => fitsBelow(schema, { ...place, value })),
  minProperties: ofMembers((count, bound) => count >= bound),
  maxProperties: ofMembers((count, bound) => count <= bound),
  required: (names, { value }) => !isObject(value) || (names as string[]).every((name) => Object.hasOwn(value, name)),
  properties: (schemas, place) => {
    const { value } = place;
    if (!isObject(value)) return true;
    const named = Object.entries(schemas as JsonObject).filter(([name]) => Object.hasOwn(value, name));
    return named.every(([name, schema]) => fitsBelow(schema, { ...place, value: value[name] as Json }));
  },
  patternProperties: (schemas, place) => {
    const { value, patterns } = place;
    if (!isObject(value)) return true;
    return Object.entries(schemas as JsonObject).every(([pattern, schema]) => {
      const names = Object.keys(value).filter((name) => patterns.isFound(pattern, name, { ignoreCase: false }));
      return names.every((name) => fitsBelow(schema, { ...place, value: value[name] as Json }));
    });
  },
  additionalProperties: (schema, place) =>
    otherMembers(place).every((name) =>
      fitsBelow(schema, { ...place, value: (place.value as JsonObject)[name] ?? null }),
    ),
  allOf: (schemas, place) => branches(schemas, place) === (schemas as Json[]).length,
  anyOf: (schemas, place) => branches(schemas, place) > 0,
  oneOf: (schemas, place) => branches(schemas, place) === 1,
  not: (schema, place) => !fitsBelow(schema, place),
  $ref: (pointer, place) => fitsBelow(resolve(String(pointer), place.root), { ...place, depth: place.depth + 1 }),
};

/** Finds the schema that a reference within the document names. Throws `UnknownKeyword` for any other reference. */
export function resolve(pointer: string, root: JsonObject): Json {
  if (pointer !== "#" && !pointer.startsWith("#/")) throw new UnknownKeyword(pointer);
  const names = pointer.split("/").slice(1);
  let found: Json = root as Json;
  for (const name of names) {
    const key = decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~");
    const next: Json | undefined = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
    if (next === undefined) throw new UnknownKeyword(pointer);
    found = next;
  }
  return found;
}

function fitsBelow(schema: Json, place: Place): boolean {
  if (typeof schema === "boolean") return schema;
  if (!isObject(schema)) throw new UnknownKeyword(JSON.stringify(schema));
  return fits({ ...place, schema });
}

function fits(place: Place): boolean {
  const { schema, depth } = place;
  if (depth > MAX_DEPTH) throw new UnknownKeyword("$ref");
  const keywords = Object.keys(schema).filter((keyword) => !ANNOTATIONS.includes(keyword));
  // Drafts differ in whether the neighbours of a reference count.
  if (keywords.includes("$ref") && keywords.length > 1) throw new UnknownKeyword("$ref");
  // All of them are read before the first that fails, so that an unknown keyword is found with any value.
  return keywords
    .map((keyword) => {
      const check = Object.hasOwn(CHECKS, keyword) ? CHECKS[keyword] : undefined;
      if (check === undefined) throw new UnknownKeyword(keyword);
      return check(schema[keyword] as Json, place);
    })
    .every(Boolean);
}

/** Tests whether a value fits a schema; undefined if the schema has a keyword that this validator does not know. */
export function naiveFits(schema: JsonObject, value: Json, patterns: NaivePatterns): boolean | undefined {
  try {
    return fits({ value, schema, root: schema, patterns, depth: 0 });
  } catch (error) {
    if (error instanceof UnknownKeyword) return undefined;
    throw error;
  }
}
