import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { Ajv, type ErrorObject } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { FieldViolation } from "../errors.ts";
import { ownValue } from "./json-type.ts";
import { SCHEMA_LIMITS } from "./schema-limits.ts";
import { schemaViolation } from "./schema-violation.ts";

/** The versions of JSON Schema that are understood. */
export type Dialect = "draft-07" | "2020-12";

const MAX_REPORTED = 50;
const META_SCHEMA = {
  "draft-07": "http://json-schema.org/draft-07/schema",
  "2020-12": "https://json-schema.org/draft/2020-12/schema",
};
// Formats are left out: a pattern in another regex dialect is kept as text and must not refuse the schema.
const OPTIONS = { strict: false, allErrors: true, validateFormats: false, logger: false } as const;
const CHECKER = { "draft-07": new Ajv(OPTIONS), "2020-12": new Ajv2020(OPTIONS) };

/** The dialect that `$schema` names; 2020-12 when it names none, undefined when it names another. */
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

/** What makes a schema too large or too deep to look at. */
export function sizeViolations(schema: JsonObject): readonly FieldViolation[] {
  if (nestedDeeper(schema, SCHEMA_LIMITS.nesting)) {
    return [schemaViolation("SCHEMA_TOO_DEEP", `is nested deeper than ${SCHEMA_LIMITS.nesting} levels`)];
  }
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes <= SCHEMA_LIMITS.bytes) return [];
  return [schemaViolation("SCHEMA_TOO_LARGE", `has ${bytes} bytes; at most ${SCHEMA_LIMITS.bytes} are accepted`)];
}

/** Where a schema breaks the rules of its dialect, one violation for each place, at most 50. */
export function metaSchemaViolations(schema: JsonObject, dialect: Dialect): readonly FieldViolation[] {
  const validate = CHECKER[dialect].getSchema(META_SCHEMA[dialect]);
  if (validate === undefined || validate(schema)) return [];
  const byPlace = new Map<string, FieldViolation>();
  for (const error of validate.errors ?? []) {
    if (byPlace.size < MAX_REPORTED && !byPlace.has(error.instancePath))
      byPlace.set(error.instancePath, violationFrom(error));
  }
  return [...byPlace.values()];
}

function violationFrom(error: ErrorObject): FieldViolation {
  const steps = error.instancePath.split("/").slice(1);
  const path = steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const allowed: unknown = error.params.allowedValues;
  const choice = Array.isArray(allowed) ? `: ${allowed.map((value) => `\`${value}\``).join(", ")}` : "";
  return schemaViolation("NOT_A_SCHEMA", `${error.message ?? "is not allowed here"}${choice}`, path);
}

function nestedDeeper(root: JsonValue, limit: number): boolean {
  let level: JsonValue[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > limit) return true;
    const below: JsonValue[] = [];
    for (const value of level) {
      if (typeof value !== "object" || value === null) continue;
      for (const child of Object.values(value)) below.push(child);
    }
    level = below;
  }
  return false;
}
