import type { JsonObject } from "@bufbuild/protobuf";
import { RE2JS } from "@bufbuild/re2";
import { createRefResolver, patternsIn, schemaField } from "./check.ts";

/** Something about a schema that is stored which its author should know. */
export interface SchemaWarning {
  /** `input_schema.properties.a.pattern`. */
  readonly path: string;
  readonly reason: "PATTERN_NOT_CHECKED";
  readonly message: string;
}

const MAX_WARNINGS = 50;
const MESSAGE =
  "uses what RE2 does not have, such as a lookahead or a backreference: arguments are not checked against it, and no `schema` rule compiles on the tool";

/** Lists the patterns of a stored schema that are valid in ECMA-262 and not in RE2, at most 50. */
export function uncheckedPatterns(schema: JsonObject): readonly SchemaWarning[] {
  const warnings: SchemaWarning[] = [];
  for (const { path, pattern } of patternsIn(schema, createRefResolver(schema))) {
    if (warnings.length >= MAX_WARNINGS) break;
    if (isRe2(pattern)) continue;
    warnings.push({ path: schemaField(path), reason: "PATTERN_NOT_CHECKED", message: MESSAGE });
  }
  return warnings;
}

function isRe2(pattern: string): boolean {
  try {
    new RE2JS(pattern);
    return true;
  } catch {
    return false;
  }
}
