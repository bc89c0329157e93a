import type { JsonObject } from "@bufbuild/protobuf";
import type { FieldViolation } from "../errors.ts";
import { elementPath, memberPath } from "./argument-path.ts";
import { ARRAY, OBJECT, typesFromMask } from "./json-type.ts";
import { dialectOf, metaSchemaViolations, sizeViolations } from "./schema-check.ts";
import { SCHEMA_LIMITS } from "./schema-limits.ts";
import { createRefResolver, refViolations } from "./schema-refs.ts";
import { type Bounds, type Mention, type Shape, settledTypes } from "./schema-shape.ts";
import { unfoldSchema } from "./schema-unfold.ts";
import { type SchemaViolationReason, schemaViolation } from "./schema-violation.ts";
import type { FlattenedArgument, FlattenResult } from "./types.ts";

const REFUSAL: Readonly<Partial<Record<SchemaViolationReason, string>>> = {
  SCHEMA_TOO_COMPLEX: `takes more than ${SCHEMA_LIMITS.visits} steps to unfold; use fewer nested \`$ref\` and \`allOf\``,
  SCHEMA_TOO_DEEP: `has an argument deeper than ${SCHEMA_LIMITS.depth} levels`,
  TOO_MANY_PATHS: `has more than ${SCHEMA_LIMITS.paths} argument paths`,
  NOT_AN_OBJECT_SCHEMA: "does not admit an object, which a tool's arguments are",
};

/**
 * Flattens a tool's JSON Schema (draft-07 or 2020-12) into argument paths, sorted by path. A recursive schema is unfolded
 * twice over, or less where that is too much. MUST NOT throw; everything wrong with the schema comes back together.
 */
export function flattenSchema(schema: JsonObject): FlattenResult {
  const tooLarge = sizeViolations(schema);
  if (tooLarge.length > 0) return invalid(tooLarge);
  const dialect = dialectOf(schema);
  if (dialect === undefined) {
    return invalid([schemaViolation("DIALECT_UNKNOWN", "names neither draft-07 nor 2020-12", ["$schema"])]);
  }
  const resolve = createRefResolver(schema);
  const violations = [...metaSchemaViolations(schema, dialect), ...refViolations(schema, resolve)];
  if (violations.length > 0) return invalid(violations);
  let refusal: SchemaViolationReason = "SCHEMA_TOO_COMPLEX";
  for (let recursion: number = SCHEMA_LIMITS.recursion; recursion >= 0; recursion--) {
    const unfolded = unfoldSchema(schema, dialect, resolve, recursion);
    const flattened = unfolded.kind === "unfolded" ? argumentsOf(unfolded.shape) : unfolded.reason;
    if (typeof flattened !== "string") return { kind: "flattened", arguments: flattened };
    refusal = flattened;
  }
  return invalid([schemaViolation(refusal, REFUSAL[refusal] ?? "is refused")]);
}

function invalid(violations: readonly FieldViolation[]): FlattenResult {
  return {
    kind: "invalid",
    violations: violations.toSorted((a, b) => (a.field < b.field ? -1 : a.field > b.field ? 1 : 0)),
  };
}

function argumentsOf(root: Shape): readonly FlattenedArgument[] | SchemaViolationReason {
  if ((settledTypes(root) & OBJECT) === 0) return "NOT_AN_OBJECT_SCHEMA";
  const found: FlattenedArgument[] = [];
  // The arguments are always an object, whatever else the schema admits.
  collect({ ...root, types: OBJECT }, "", true, found);
  if (found.length > SCHEMA_LIMITS.paths) return "TOO_MANY_PATHS";
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function collect(shape: Shape, path: string, required: boolean, found: FlattenedArgument[]): void {
  const types = settledTypes(shape);
  const below = (mention: Mention, at: string, always: boolean): void => {
    if (found.length > SCHEMA_LIMITS.paths) return;
    found.push(argumentFrom(mention.shape, at, always));
    collect(mention.shape, at, always, found);
  };
  for (const [name, mention] of shape.members) {
    below(mention, memberPath(path, name), required && types === OBJECT && shape.required.has(name));
  }
  if (path !== "" && shape.element !== undefined) {
    below(shape.element, elementPath(path), required && types === ARRAY && shape.hasElement);
  }
}

function argumentFrom(shape: Shape, path: string, required: boolean): FlattenedArgument {
  return {
    path,
    types: typesFromMask(settledTypes(shape)),
    required,
    enum: shape.enum ?? [],
    ...boundsFrom(shape),
    ...(shape.pattern !== undefined && { pattern: shape.pattern }),
    ...(shape.format !== undefined && { format: shape.format }),
    ...(shape.description !== undefined && { description: shape.description }),
  };
}

function boundsFrom(bounds: Bounds): Partial<Pick<FlattenedArgument, keyof Bounds>> {
  return {
    ...(bounds.minimum !== undefined && { minimum: bounds.minimum }),
    ...(bounds.maximum !== undefined && { maximum: bounds.maximum }),
    ...(bounds.exclusiveMinimum !== undefined && { exclusiveMinimum: bounds.exclusiveMinimum }),
    ...(bounds.exclusiveMaximum !== undefined && { exclusiveMaximum: bounds.exclusiveMaximum }),
  };
}
