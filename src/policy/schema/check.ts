import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Ajv, type ErrorObject } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { FieldViolation } from "../../errors.ts";
import { memberPath } from "../../notation/argument-path.ts";
import { isJsonObject, ownValue } from "../json-value.ts";

/** The supported versions of JSON Schema. */
export type Dialect = "draft-07" | "2020-12";

/** Upper bounds on a tool's schema. */
export const SCHEMA_LIMITS = {
  /** Bytes of the schema as JSON in UTF-8. */
  bytes: 256 * 1024,
  /** Argument paths. */
  paths: 2000,
  /** Steps of one argument path; a recursive schema is cut there instead of refused. */
  depth: 32,
  /** Nesting of the schema's own JSON: each step of a path takes two levels, the rest is for `anyOf` and the like. */
  nesting: 128,
  /** Times that a `$ref` may lead back into a definition that is being unfolded, along one path. */
  recursion: 2,
  /** Subschemas visited, counted again wherever a `$ref` unfolds one. */
  visits: 20_000,
} as const;

/** Every reason for which a schema is refused, with its meaning. The words are stable. */
export const SCHEMA_VIOLATION_REASONS = {
  AJV_KEYWORD: "`$async` and `$data` are not keywords of JSON Schema and would change what a check means",
  DIALECT_UNKNOWN: "`$schema` names neither draft-07 nor 2020-12",
  NOT_A_SCHEMA: "a keyword has a value that JSON Schema does not allow",
  NOT_AN_OBJECT_SCHEMA: "arguments are an object, and the schema does not admit one",
  PATTERN_INVALID: "a pattern is not a regular expression of ECMA-262 with the flag `u`",
  REF_REMOTE: "a `$ref` leaves the document",
  REF_UNRESOLVED: "a `$ref` leads nowhere",
  SCHEMA_TOO_COMPLEX: "unfolding the schema takes too many steps",
  SCHEMA_TOO_DEEP: "the schema or one of its paths is nested too deep",
  SCHEMA_TOO_LARGE: "the schema has too many bytes",
  TOO_MANY_PATHS: "the schema has too many argument paths",
} as const;

/** A reason for which a schema is refused. */
export type SchemaViolationReason = keyof typeof SCHEMA_VIOLATION_REASONS;

/** A subschema with its JSON pointer in the document. */
export interface RefTarget {
  readonly pointer: string;
  readonly schema: JsonValue;
}

/** Finds the target of a `$ref` within its own document. Returns undefined if it leads nowhere. */
export type RefResolver = (ref: string) => RefTarget | undefined;

/** The keywords that lead to another schema by its address. */
export const REF_KEYWORDS = ["$ref", "$dynamicRef"] as const;

const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const MAPS = ["properties", "$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"];
const SINGLES = [
  "items",
  "additionalItems",
  "unevaluatedItems",
  "contains",
  "additionalProperties",
  "unevaluatedProperties",
  "propertyNames",
  "not",
  "if",
  "then",
  "else",
];
const LIST_INDEX = /^\d+$/;
const MAX_REPORTED = 50;
const META_SCHEMA = {
  "draft-07": "http://json-schema.org/draft-07/schema",
  "2020-12": "https://json-schema.org/draft/2020-12/schema",
};
// Without formats: a pattern in another regex dialect is kept as text and must not refuse the schema.
const OPTIONS = { strict: false, allErrors: true, validateFormats: false, logger: false } as const;
const CHECKER = { "draft-07": new Ajv(OPTIONS), "2020-12": new Ajv2020(OPTIONS) };

/** Builds a violation at a place in a schema, whose field reads `input_schema.properties.amount.type`. */
export function schemaViolation(
  reason: SchemaViolationReason,
  description: string,
  path: readonly string[] = [],
): FieldViolation {
  return { field: schemaField(path), reason, description };
}

/** Formats a place in a schema as a field of the request: `input_schema.properties.amount.type`. */
export function schemaField(path: readonly string[]): string {
  return path.reduce(
    (text, step) => (LIST_INDEX.test(step) ? `${text}[${step}]` : memberPath(text, step)),
    "input_schema",
  );
}

/** Returns the dialect that `$schema` names: 2020-12 by default, undefined for any other. */
export function dialectOf(schema: JsonObject): Dialect | undefined {
  const named = ownValue(schema, "$schema");
  if (named === undefined) return "2020-12";
  if (typeof named !== "string") return undefined;
  const address = named
    .trim()
    .replace(/#$/, "")
    .replace(/^https?/, "");
  if (address === "://json-schema.org/draft-07/schema") return "draft-07";
  return address === "://json-schema.org/draft/2020-12/schema" ? "2020-12" : undefined;
}

/** Refuses a schema that is too large or too deep to look at. */
export function sizeViolations(schema: JsonObject): readonly FieldViolation[] {
  if (isNestedDeeper(schema, SCHEMA_LIMITS.nesting)) {
    return [schemaViolation("SCHEMA_TOO_DEEP", `is nested deeper than ${SCHEMA_LIMITS.nesting} levels`)];
  }
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes <= SCHEMA_LIMITS.bytes) return [];
  return [schemaViolation("SCHEMA_TOO_LARGE", `has ${bytes} bytes; at most ${SCHEMA_LIMITS.bytes} are accepted`)];
}

// Level by level instead of by recursion, which would run out of stack.
function isNestedDeeper(root: JsonValue, limit: number): boolean {
  let level: JsonValue[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true;
    level = level.flatMap((value) => (typeof value === "object" && value !== null ? Object.values(value) : []));
  }
  return false;
}

/** Checks a schema against the rules of its dialect. Reports one violation for each place, at most 50. */
export function metaSchemaViolations(schema: JsonObject, dialect: Dialect): readonly FieldViolation[] {
  const validate = CHECKER[dialect].getSchema(META_SCHEMA[dialect]);
  if (validate === undefined || validate(schema)) return [];
  const byPlace = new Map<string, FieldViolation>();
  for (const error of validate.errors ?? []) {
    if (byPlace.size >= MAX_REPORTED) break;
    if (!byPlace.has(error.instancePath)) byPlace.set(error.instancePath, violationFrom(error));
  }
  return [...byPlace.values()];
}

function violationFrom(error: ErrorObject): FieldViolation {
  const allowed: unknown = error.params.allowedValues;
  const choice = Array.isArray(allowed) ? `: ${allowed.map((value) => `\`${value}\``).join(", ")}` : "";
  const description = `${error.message ?? "is not allowed here"}${choice}`;
  return schemaViolation("NOT_A_SCHEMA", description, pointerSteps(error.instancePath));
}

/** Notes every `$ref` that leaves the document or leads nowhere in it. */
export function refViolations(root: JsonObject, resolve: RefResolver): readonly FieldViolation[] {
  const violations: FieldViolation[] = [];
  const visit = (schema: JsonObject, path: readonly string[]): void => {
    for (const keyword of REF_KEYWORDS) {
      const ref = ownValue(schema, keyword);
      if (typeof ref !== "string" || resolve(ref) !== undefined) continue;
      const at = [...path, keyword];
      const isRemote = localFragment(ref, ownValue(root, "$id")) === undefined;
      const remote = `leads out of the schema to \`${ref}\`; copy what it needs into \`$defs\``;
      const unresolved = `leads to \`${ref}\`, which the schema does not contain`;
      violations.push(
        isRemote ? schemaViolation("REF_REMOTE", remote, at) : schemaViolation("REF_UNRESOLVED", unresolved, at),
      );
    }
  };
  visitSchemas(root, visit, resolve);
  return violations;
}

/** Notes every `$async` and `$data`: ajv gives them a meaning that JSON Schema does not. */
export function ajvKeywordViolations(root: JsonObject, resolve: RefResolver): readonly FieldViolation[] {
  const violations: FieldViolation[] = [];
  const note = (path: readonly string[], keyword: string): void => {
    violations.push(schemaViolation("AJV_KEYWORD", `\`${keyword}\` is not supported; remove it`, [...path, keyword]));
  };
  const visit = (schema: JsonObject, path: readonly string[]): void => {
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === "$async" || keyword === "$data") note(path, keyword);
      const refersToData = isJsonObject(value) && Object.hasOwn(value, "$data");
      if (refersToData && !MAPS.includes(keyword) && !SINGLES.includes(keyword)) note([...path, keyword], "$data");
    }
  };
  visitSchemas(root, visit, resolve);
  return violations.slice(0, MAX_REPORTED);
}

/** A pattern of a schema, with its path in the document. */
export interface PatternAt {
  readonly path: readonly string[];
  readonly pattern: string;
}

/** Finds every `pattern`, and every name in `patternProperties`. */
export function patternsIn(root: JsonObject, resolve: RefResolver): readonly PatternAt[] {
  const found: PatternAt[] = [];
  const visit = (schema: JsonObject, path: readonly string[]): void => {
    const pattern = ownValue(schema, "pattern");
    if (typeof pattern === "string") found.push({ path: [...path, "pattern"], pattern });
    const named = ownValue(schema, "patternProperties");
    if (!isJsonObject(named)) return;
    for (const name of Object.keys(named)) found.push({ path: [...path, "patternProperties", name], pattern: name });
  };
  visitSchemas(root, visit, resolve);
  return found;
}

/** Notes every pattern that is not a regular expression of ECMA-262 with the flag `u`, in which JSON Schema writes them. */
export function patternViolations(root: JsonObject, resolve: RefResolver): readonly FieldViolation[] {
  const violations: FieldViolation[] = [];
  for (const { path, pattern } of patternsIn(root, resolve)) {
    if (violations.length >= MAX_REPORTED) break;
    const fault = patternFault(pattern);
    if (fault === undefined) continue;
    const description = `is not a regular expression of ECMA-262 with the flag \`u\`: ${fault}`;
    violations.push(schemaViolation("PATTERN_INVALID", description, path));
  }
  return violations;
}

function patternFault(pattern: string): string | undefined {
  try {
    new RegExp(pattern, "u");
    return undefined;
  } catch (error) {
    // The message repeats the pattern, which may be long: "Invalid regular expression: /(/u: Unterminated group".
    const message = error instanceof Error ? error.message : String(error);
    return message.slice(message.lastIndexOf(": ") + 2);
  }
}

/** Calls `visit` with every schema under a schema, itself first, each once, with its path in the document. */
export function visitSchemas(
  root: JsonObject,
  visit: (schema: JsonObject, path: readonly string[]) => void,
  resolve?: RefResolver,
): void {
  const seen = new Set<JsonObject>();
  const waiting: SchemaAt[] = [[root, []]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [schema, path] = next;
    if (!isJsonObject(schema) || seen.has(schema)) continue;
    seen.add(schema);
    visit(schema, path);
    waiting.push(...children(schema, path));
    if (resolve !== undefined) waiting.push(...targets(schema, resolve));
  }
}

type SchemaAt = readonly [schema: JsonValue | undefined, path: readonly string[]];

function children(schema: JsonObject, path: readonly string[]): readonly SchemaAt[] {
  const found: SchemaAt[] = [];
  for (const key of SINGLES) {
    const value = ownValue(schema, key);
    if (value !== undefined) found.push([value, [...path, key]]);
  }
  for (const key of LISTS) {
    const list = ownValue(schema, key);
    if (Array.isArray(list)) list.forEach((item, index) => void found.push([item, [...path, key, `${index}`]]));
  }
  for (const key of MAPS) {
    const map = ownValue(schema, key);
    if (isJsonObject(map)) for (const name of Object.keys(map)) found.push([map[name], [...path, key, name]]);
  }
  return found;
}

function targets(schema: JsonObject, resolve: RefResolver): readonly SchemaAt[] {
  return REF_KEYWORDS.flatMap((keyword): readonly SchemaAt[] => {
    const ref = ownValue(schema, keyword);
    const target = typeof ref === "string" ? resolve(ref) : undefined;
    return target === undefined ? [] : [[target.schema, pointerSteps(target.pointer)]];
  });
}

/** Builds the resolver of a document: JSON pointers, anchors and the document's own `$id`. */
export function createRefResolver(root: JsonObject): RefResolver {
  const anchors = new Map<string, RefTarget>();
  visitSchemas(root, (schema, path) => {
    for (const keyword of ["$anchor", "$dynamicAnchor", "$id"]) {
      const name = ownValue(schema, keyword);
      const anchor = typeof name === "string" && keyword === "$id" ? anchorFromId(name) : name;
      if (typeof anchor === "string" && !anchors.has(anchor))
        anchors.set(anchor, { pointer: pointerFrom(path), schema });
    }
  });
  return (ref) => {
    const fragment = localFragment(ref, ownValue(root, "$id"));
    return fragment === undefined ? undefined : (anchors.get(fragment) ?? pointed(root, fragment));
  };
}

function anchorFromId(id: string): string | undefined {
  return id.startsWith("#") && id.length > 1 ? id.slice(1) : undefined;
}

/** Returns the fragment of a reference within the document; undefined if it leads out of it. */
function localFragment(ref: string, own: JsonValue | undefined): string | undefined {
  const hash = ref.indexOf("#");
  const document = hash === -1 ? ref : ref.slice(0, hash);
  if (document !== "" && (typeof own !== "string" || document !== own.replace(/#$/, ""))) return undefined;
  try {
    return hash === -1 ? "" : decodeURIComponent(ref.slice(hash + 1));
  } catch {
    return ref.slice(hash + 1);
  }
}

function pointed(root: JsonObject, fragment: string): RefTarget | undefined {
  if (fragment !== "" && !fragment.startsWith("/")) return undefined;
  let value: JsonValue | undefined = root;
  for (const name of pointerSteps(fragment)) {
    if (Array.isArray(value)) value = LIST_INDEX.test(name) ? value[Number(name)] : undefined;
    else value = isJsonObject(value) ? ownValue(value, name) : undefined;
  }
  return isJsonObject(value) || typeof value === "boolean" ? { pointer: fragment, schema: value } : undefined;
}

function pointerFrom(path: readonly string[]): string {
  return path.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** Splits a JSON pointer into its unescaped steps. */
export function pointerSteps(pointer: string): readonly string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}
