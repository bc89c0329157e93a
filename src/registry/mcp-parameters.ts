import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";

/** An argument of a tool that clients of the stateless generation repeat in a header, `Mcp-Param-…`. */
export interface RepeatedParameter {
  /** Name of the header, in lower case. */
  readonly header: string;
  /** Steps to the argument through nested objects. */
  readonly path: readonly string[];
}

const ANNOTATION = "x-mcp-header";
const HEADER_TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const MAX_LEVELS = 16;

/** Lists the arguments that an input schema declares to be repeated in headers. */
export function repeatedParametersOf(schema: JsonObject): readonly RepeatedParameter[] {
  const found: RepeatedParameter[] = [];
  collect(schema, [], found);
  return found;
}

function collect(schema: JsonValue | undefined, path: readonly string[], found: RepeatedParameter[]): void {
  if (!isJsonObject(schema) || path.length > MAX_LEVELS) return;
  const name = ownValue(schema, ANNOTATION);
  if (path.length > 0 && typeof name === "string" && HEADER_TOKEN.test(name)) {
    found.push({ header: `mcp-param-${name.toLowerCase()}`, path });
  }
  const properties = ownValue(schema, "properties");
  if (!isJsonObject(properties)) return;
  for (const [step, property] of Object.entries(properties)) collect(property, [...path, step], found);
}
