import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Names the shape of a pasted definition. The service decides whether it takes it. */
export function shapeOf(json: JsonValue): string {
  if (Array.isArray(json)) return `a list of ${json.length}`;
  if (!isObject(json)) return "no object";
  if (isObject(json.result) && Array.isArray(json.result.tools)) return "a reply to tools/list";
  if (Array.isArray(json.tools)) return `a list of ${json.tools.length}`;
  const body = json.type === "function" && isObject(json.function) ? json.function : json;
  if (body !== json || isObject(body.parameters)) return "an OpenAI function";
  if ("inputSchema" in body) return "an MCP tool";
  if ("input_schema" in body) return "an Anthropic tool";
  if ("schema" in body) return "a schema with a name";
  return isObject(body.properties) || body.type === "object" ? "a JSON Schema" : "nothing known";
}
