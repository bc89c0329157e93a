import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { ControlPlaneError, ErrorReason, type FieldViolation } from "../errors.ts";
import { TOOL_NAME_RULE, toolKey, toolNameFault } from "../policy/names.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../tree/canonical.ts";
import { isStorableJson } from "./checked-text.ts";
import { isToolDescription, TOOL_DESCRIPTION_RULE, type ToolDraft } from "./tools.ts";

const MAX_TOOLS = 500;
/** Field of the schema in each format: MCP, Anthropic, OpenAI, and a `name` with a `schema`. */
const SCHEMA_KEYS = ["inputSchema", "input_schema", "parameters", "schema"] as const;
const ACCEPTED =
  "a tool of MCP (`inputSchema`), Anthropic (`input_schema`) or OpenAI (`parameters`), a `name` with a `schema`, a JSON Schema with a `title`, a reply to `tools/list`, or a list of these";
const EMPTY_SCHEMA: JsonObject = { type: "object", properties: {} };

interface Item {
  /** `definition[3]`. */
  readonly path: string;
  readonly value: JsonValue;
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const violation = (field: string, description: string): FieldViolation => ({
  field,
  description,
  reason: "PASTE_NOT_RECOGNISED",
});

function refused(violations: readonly FieldViolation[]): ControlPlaneError {
  const [first] = violations;
  const more = violations.length > 1 ? ` (and ${violations.length - 1} more)` : "";
  const message = `the paste is not recognised: \`${first?.field}\` ${first?.description}${more}`;
  const metadata = { field: first?.field ?? "", violations: String(violations.length) };
  return new ControlPlaneError(ErrorReason.PASTE_NOT_RECOGNISED, message, metadata, { violations });
}

const itemsIn = (list: readonly JsonValue[], path: string): Item[] =>
  list.map((value, index) => ({ path: `${path}[${index}]`, value }));

/** Finds the tools: one, a list, an object with `tools`, or a JSON-RPC reply whose `result` has them. */
function itemsFrom(definition: JsonValue): Item[] {
  if (Array.isArray(definition)) return itemsIn(definition, "definition");
  if (isObject(definition) && Array.isArray(definition.tools)) return itemsIn(definition.tools, "definition.tools");
  if (isObject(definition) && isObject(definition.result) && Array.isArray(definition.result.tools)) {
    return itemsIn(definition.result.tools, "definition.result.tools");
  }
  return [{ path: "definition", value: definition }];
}

/** Returns the object with name and schema: the item itself, or `function` in OpenAI's older form. */
function definitionIn({ path, value }: Item): { readonly path: string; readonly body: JsonObject } | undefined {
  if (!isObject(value)) return undefined;
  if (value.type === "function" && isObject(value.function)) return { path: `${path}.function`, body: value.function };
  return { path, body: value };
}

/** Recognises a JSON Schema with a `name` written into it. */
function bareSchemaFrom(body: JsonObject): JsonObject | undefined {
  if (body.type !== "object" && !isObject(body.properties)) return undefined;
  const { name: _name, ...schema } = body;
  return schema;
}

function schemaOf(item: Item, path: string, body: JsonObject): { field: string; schema: JsonValue | undefined } {
  const key = SCHEMA_KEYS.find((each) => body[each] !== undefined && body[each] !== null);
  if (key !== undefined) return { field: `${path}.${key}`, schema: body[key] };
  // OpenAI omits `parameters` for a function that takes none.
  if (isObject(item.value) && item.value.type === "function")
    return { field: `${path}.parameters`, schema: EMPTY_SCHEMA };
  const bare = bareSchemaFrom(body);
  return bare === undefined ? { field: `${path}.inputSchema`, schema: undefined } : { field: path, schema: bare };
}

function nameViolation(path: string, name: JsonValue | undefined): FieldViolation | undefined {
  if (name === undefined || name === null) return violation(`${path}.name`, "is missing");
  const fault = typeof name === "string" ? toolNameFault(name) : TOOL_NAME_RULE;
  return fault === undefined ? undefined : violation(`${path}.name`, fault);
}

function descriptionViolation(path: string, text: JsonValue | undefined): FieldViolation | undefined {
  if (text === undefined || text === null) return undefined;
  if (typeof text !== "string") return violation(`${path}.description`, "must be a string");
  if (!isStorableJson(text))
    return violation(`${path}.description`, "must not hold U+0000 or half of a surrogate pair");
  return isToolDescription(text) ? undefined : violation(`${path}.description`, TOOL_DESCRIPTION_RULE);
}

function schemaViolation(field: string, schema: JsonValue | undefined): FieldViolation | undefined {
  if (schema === undefined) {
    return violation(field, "is missing; `input_schema`, `parameters` and `schema` are recognised as well");
  }
  return isObject(schema) ? undefined : violation(field, "must be a JSON Schema object");
}

/** Returns the tool of one item, or adds what is wrong with it to `violations`. */
function draftFrom(item: Item, violations: FieldViolation[]): ToolDraft | undefined {
  const found = definitionIn(item);
  if (found === undefined) {
    violations.push(violation(item.path, `is not ${ACCEPTED}`));
    return undefined;
  }
  const { path, body } = found;
  const { field: schemaField, schema } = schemaOf(item, path, body);
  const { description } = body;
  // A schema outside a tool may be named by its title.
  const name = body.name ?? (schemaField === path ? body.title : undefined);
  const wrong = [
    nameViolation(path, name),
    descriptionViolation(path, description),
    schemaViolation(schemaField, schema),
  ];
  const faults = wrong.filter((each) => each !== undefined);
  violations.push(...faults);
  if (faults.length > 0) return undefined;
  const text = typeof description === "string" ? description : undefined;
  return {
    name: String(name),
    description: text,
    inputSchema: schema as JsonObject,
    source: ToolSource.PASTE,
    schemaField,
  };
}

/** Refuses two schemas for one name: which of them is current would depend on their order in the paste. */
function repeatedViolations(drafts: readonly ToolDraft[]): FieldViolation[] {
  const schemas = new Map<string, string>();
  return drafts.flatMap(({ name, inputSchema, schemaField = "" }) => {
    const schema = canonicalJson(inputSchema);
    const key = toolKey(name);
    const before = schemas.get(key) ?? schema;
    schemas.set(key, before);
    return before === schema ? [] : [violation(schemaField, `differs from an earlier schema of \`${name}\``)];
  });
}

/**
 * Reads the tools that a person pasted, in that order: one, an array, an object with `tools`, or an MCP server's reply to
 * `tools/list`; at most 500. A JSON Schema without a `name` is named by its `title`. Throws
 * PASTE_NOT_RECOGNISED with the violations of every item.
 */
export function toolsFromPaste(definition: JsonValue): ToolDraft[] {
  const items = itemsFrom(definition);
  if (items.length === 0) throw refused([violation("definition", `holds no tool; expected ${ACCEPTED}`)]);
  if (items.length > MAX_TOOLS) {
    throw refused([violation("definition", `holds ${items.length} tools; at most ${MAX_TOOLS} are accepted`)]);
  }
  const violations: FieldViolation[] = [];
  const drafts = items.flatMap((item) => draftFrom(item, violations) ?? []);
  if (violations.length === 0 && drafts.every(({ inputSchema }) => isStorableJson(inputSchema)))
    violations.push(...repeatedViolations(drafts));
  if (violations.length > 0) throw refused(violations);
  return drafts;
}
