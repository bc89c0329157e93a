import { createHash } from "node:crypto";

/** A JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object; a member that is `undefined` is left out, as JSON.stringify does. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

function canonicalString(text: string): string {
  if (!text.isWellFormed()) throw new TypeError("a string holds a lone surrogate");
  return JSON.stringify(text);
}

function canonicalObject(object: JsonObject): string {
  const members: string[] = [];
  // RFC 8785 §3.2.3 orders by UTF-16 code units, which is what sort() does.
  for (const key of Object.keys(object).sort()) {
    const value = object[key];
    if (value === undefined) continue;
    members.push(`${canonicalString(key)}:${canonicalJson(value)}`);
  }
  // Joined, which gives one flat text: a tree of its pieces takes several times the memory for as long as it waits.
  return `{${members.join(",")}}`;
}

/**
 * The RFC 8785 (JSON Canonicalization Scheme) form of a value.
 * Throws TypeError for what I-JSON (RFC 7493) cannot hold: NaN, infinities and lone surrogates.
 */
export function canonicalJson(value: JsonValue): string {
  if (typeof value === "string") return canonicalString(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON number`);
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  return canonicalObject(value as JsonObject);
}

/** SHA-256 over the canonical form, lower-case hexadecimal. */
export function digestOf(value: JsonValue): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
