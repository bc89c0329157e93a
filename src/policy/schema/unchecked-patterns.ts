import type { JsonObject } from "@bufbuild/protobuf";
import { checkPattern } from "../patterns.ts";
import { createRefResolver, patternsIn, schemaField } from "./check.ts";

/** Warning about a schema that is stored. */
export interface SchemaWarning {
  /** `input_schema.properties.a.pattern`. */
  readonly path: string;
  readonly reason: "PATTERN_NOT_CHECKED";
  readonly message: string;
}

const MAX_FAULTS = 50;
/** Instructions of a schema's patterns; past them no further pattern is compiled. */
const MAX_INSTRUCTIONS = 20_000;
const CONSEQUENCE = "arguments are not checked against it, and no `schema` rule compiles on the tool";

/** A pattern that arguments cannot be checked against. `message` explains why, as the rest of a sentence about it. */
export interface PatternFault {
  /** `input_schema.properties.a.pattern`. */
  readonly path: string;
  readonly pattern: string;
  readonly message: string;
}

/** Lists the patterns of a schema that are valid in ECMA-262 and cannot be checked with RE2, at most 50. */
export function patternFaults(schema: JsonObject): readonly PatternFault[] {
  const faults: PatternFault[] = [];
  let instructions = 0;
  for (const { path, pattern } of patternsIn(schema, createRefResolver(schema))) {
    if (faults.length >= MAX_FAULTS) break;
    const checked = instructions > MAX_INSTRUCTIONS ? TOO_MANY : checkPattern(pattern, { ignoreCase: false });
    if (checked.kind === "compiled") instructions += checked.size;
    else faults.push({ path: schemaField(path), pattern, message: messageFrom(checked.message) });
  }
  return faults;
}

const TOO_MANY = {
  kind: "invalid",
  message: `comes after patterns that compile to more than ${MAX_INSTRUCTIONS} instructions together`,
} as const;

const messageFrom = (fault: string): string =>
  fault.startsWith("is not an RE2") ? "uses what RE2 does not have, such as a lookahead or a backreference" : fault;

/** Warns of the patterns of a stored schema that are not checked. */
export const uncheckedPatterns = (schema: JsonObject): readonly SchemaWarning[] =>
  patternFaults(schema).map(({ path, message }) => ({
    path,
    reason: "PATTERN_NOT_CHECKED" as const,
    message: `${message}: ${CONSEQUENCE}`,
  }));
