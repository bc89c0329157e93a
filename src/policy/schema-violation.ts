import type { FieldViolation } from "../errors.ts";
import { memberPath } from "./argument-path.ts";

/** Every reason for which a schema is refused, with what it means. The words are stable. */
export const SCHEMA_VIOLATION_REASONS = {
  DIALECT_UNKNOWN: "`$schema` names neither draft-07 nor 2020-12",
  NOT_A_SCHEMA: "a keyword has a value that JSON Schema does not allow",
  NOT_AN_OBJECT_SCHEMA: "arguments are an object, and the schema does not admit one",
  REF_REMOTE: "a `$ref` leaves the document",
  REF_UNRESOLVED: "a `$ref` leads nowhere",
  SCHEMA_TOO_COMPLEX: "unfolding the schema takes too many steps",
  SCHEMA_TOO_DEEP: "the schema or one of its paths is nested too deep",
  SCHEMA_TOO_LARGE: "the schema has too many bytes",
  TOO_MANY_PATHS: "the schema has too many argument paths",
} as const;

/** A reason for which a schema is refused. */
export type SchemaViolationReason = keyof typeof SCHEMA_VIOLATION_REASONS;

const LIST_INDEX = /^\d+$/;

/** The request field of a place in the schema: `input_schema.properties.amount.type`. */
export function fieldFrom(path: readonly string[]): string {
  return path.reduce(
    (text, step) => (LIST_INDEX.test(step) ? `${text}[${step}]` : memberPath(text, step)),
    "input_schema",
  );
}

/** One thing wrong with a schema, at a place in it. */
export function schemaViolation(
  reason: SchemaViolationReason,
  description: string,
  path: readonly string[] = [],
): FieldViolation {
  return { field: fieldFrom(path), reason, description };
}
