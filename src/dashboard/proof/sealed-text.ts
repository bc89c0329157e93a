import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** Tests for a JSON object. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Parses an object from its canonical text (RFC 8785); undefined for any other text. Parsing and writing again gives the same
 * text for a canonical one alone, since RFC 8785 takes the form of numbers and strings from ECMAScript.
 */
export function parseSealed(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text) as JsonValue;
    return isObject(value) && canonicalText(value) === text ? value : undefined;
  } catch {
    // Not JSON, or nested too deeply.
    return undefined;
  }
}

/** Writes the canonical text of a value (RFC 8785). Throws SyntaxError for lone surrogates, which I-JSON forbids. */
export function canonicalText(value: JsonValue): string {
  if (typeof value === "string") return stringText(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  // RFC 8785 §3.2.3 sorts by UTF-16 code units.
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${stringText(name)}:${canonicalText(member)}`).join(",")}}`;
}

function stringText(text: string): string {
  if (!text.isWellFormed()) throw new SyntaxError("a lone surrogate");
  return JSON.stringify(text);
}

/** Returns the value at a dotted path of member names; undefined if there is none. */
export function valueAt(value: unknown, path: string): JsonValue | undefined {
  let found: unknown = value;
  for (const name of path.split(".")) {
    if (!isObject(found) || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found as JsonValue;
}

/** Returns the text at a path; empty if there is none. */
export function textAt(value: unknown, path: string): string {
  const found = valueAt(value, path);
  return typeof found === "string" ? found : "";
}

/** Returns the number at a path; undefined if there is none. */
export function numberAt(value: unknown, path: string): number | undefined {
  const found = valueAt(value, path);
  return typeof found === "number" ? found : undefined;
}

/** Returns the list at a path; empty if there is none. */
export function listAt(value: unknown, path: string): readonly JsonValue[] {
  const found = valueAt(value, path);
  return Array.isArray(found) ? found : [];
}

/** The arguments of an action and what else was said of it, as its metadata holds them. */
export interface ActionParts {
  readonly arguments: JsonObject | undefined;
  readonly metadata: JsonObject | undefined;
}

/** Splits the metadata of a sealed action the way typed rules read them. */
export function actionPartsOf(body: JsonObject): ActionParts {
  const metadata = valueAt(body, "action.metadata");
  if (!isObject(metadata)) return { arguments: undefined, metadata: undefined };
  const nested = valueAt(metadata, "arguments");
  if (!isObject(nested)) return { arguments: unlessEmpty(metadata), metadata: undefined };
  const { arguments: _arguments, tool: _tool, ...rest } = metadata;
  return { arguments: unlessEmpty(nested), metadata: unlessEmpty(rest) };
}

const unlessEmpty = (object: JsonObject): JsonObject | undefined =>
  Object.keys(object).length === 0 ? undefined : object;
