import { VerificationError } from "./verification-error.ts";

/** A parsed JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonRecord;

/** A parsed JSON object. */
export type JsonRecord = { readonly [name: string]: JsonValue };

/** Tests whether a value is a JSON object. */
export function isJsonRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Parses an object from its canonical text (RFC 8785); undefined for any other text. RFC 8785 takes the form of numbers and
 * strings from ECMAScript, so a text is canonical if parsing and serialising give the same text: another order, white space,
 * another spelling of a number or a string, a duplicate name and a number beyond a double's precision all differ.
 */
export function parseCanonicalObject(text: string): JsonRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonRecord(value) && canonicalText(value) === text ? value : undefined;
  } catch {
    // Not JSON, or nested too deeply.
    return undefined;
  }
}

/** Writes the canonical text of a value (RFC 8785). Throws SyntaxError for lone surrogates. */
export function canonicalText(value: JsonValue): string {
  if (typeof value === "string") return stringText(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  // RFC 8785 §3.2.3 sorts by UTF-16 code units, as sort() does by default.
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${stringText(name)}:${canonicalText(value[name] as JsonValue)}`).join(",")}}`;
}

function stringText(text: string): string {
  // I-JSON (RFC 7493) forbids lone surrogates, which JSON.parse accepts as escapes.
  if (!text.isWellFormed()) throw new SyntaxError("a lone surrogate");
  return JSON.stringify(text);
}

/** Returns the value at a dotted path of member names, such as `trust.after`. */
export function valueAt(value: unknown, path: string): JsonValue | undefined {
  let found = value;
  for (const name of path.split(".")) {
    if (!isJsonRecord(found) || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found as JsonValue;
}

/** Returns the string at a path, by default the empty one. */
export function textAt(value: unknown, path: string): string {
  return stringFrom(valueAt(value, path)) ?? "";
}

/** Returns the number at a path. */
export function numberAt(value: unknown, path: string): number | undefined {
  const found = valueAt(value, path);
  return typeof found === "number" ? found : undefined;
}

/** Returns the list at a path, by default the empty one. */
export function listAt(value: unknown, path: string): readonly JsonValue[] {
  const found = valueAt(value, path);
  return Array.isArray(found) ? found : [];
}

/** Reads an index: a whole number of 0 or more, as a JSON number or as digits, the JSON form of an int64. */
export function indexFrom(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

/** Returns the value if it is a string. */
export const stringFrom = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Returns the value. Throws `malformed` for undefined, with the message that `where` has no `what`. */
export function required<T>(value: T | undefined, where: string, what: string): T {
  if (value !== undefined) return value;
  throw new VerificationError("malformed", `${where} has no ${what}`);
}
