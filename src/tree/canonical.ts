import { createHash } from "node:crypto";

/** A JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object; a member that is `undefined` is left out, as JSON.stringify does. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

function wellFormed(text: string): string {
  if (!text.isWellFormed()) throw new TypeError("a string holds a lone surrogate");
  return text;
}

function finite(value: number): number {
  if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON number`);
  return value;
}

const canonicalString = (text: string): string => JSON.stringify(wellFormed(text));

function canonicalObject(object: JsonObject): string {
  const members: string[] = [];
  // RFC 8785 §3.2.3 orders by UTF-16 code units, which is what sort() does.
  for (const key of Object.keys(object).sort()) {
    const value = object[key];
    if (value === undefined) continue;
    members.push(`${canonicalString(key)}:${written(value)}`);
  }
  // Joined, which gives one flat text: a tree of its pieces takes several times the memory for as long as it waits.
  return `{${members.join(",")}}`;
}

function written(value: JsonValue): string {
  if (typeof value === "string") return canonicalString(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return JSON.stringify(finite(value));
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  return canonicalObject(value as JsonObject);
}

/** Keys that a JavaScript object does not keep where they were put: array indexes and what names its prototype. */
const OUT_OF_PLACE = /^(?:\d|__proto__$)/;

function isInOrder(keys: readonly string[]): boolean {
  for (let index = 1; index < keys.length; index++)
    if ((keys[index - 1] as string) > (keys[index] as string)) return false;
  return true;
}

/** A copy with the members of every object in order; undefined when an object cannot keep them so. */
function inOrder(value: JsonValue): JsonValue | undefined {
  if (typeof value === "string") return wellFormed(value);
  if (typeof value === "number") return finite(value);
  if (value === null || typeof value === "boolean") return value;
  return Array.isArray(value) ? itemsInOrder(value) : membersInOrder(value as JsonObject);
}

function itemsInOrder(items: readonly JsonValue[]): JsonValue | undefined {
  const copy: JsonValue[] = [];
  for (const item of items) {
    const ordered = inOrder(item);
    if (ordered === undefined) return undefined;
    copy.push(ordered);
  }
  return copy;
}

function membersInOrder(object: JsonObject): JsonValue | undefined {
  const keys = Object.keys(object);
  if (!isInOrder(keys)) keys.sort();
  const copy: Record<string, JsonValue> = {};
  for (const key of keys) {
    const value = object[key];
    if (value === undefined) continue;
    if (OUT_OF_PLACE.test(wellFormed(key))) return undefined;
    const ordered = inOrder(value);
    if (ordered === undefined) return undefined;
    copy[key] = ordered;
  }
  return copy;
}

/**
 * The RFC 8785 (JSON Canonicalization Scheme) form of a value.
 * Throws TypeError for what I-JSON (RFC 7493) cannot hold: NaN, infinities and lone surrogates.
 */
export function canonicalJson(value: JsonValue): string {
  // Written at one go where that gives the same, in less than half the time.
  const ordered = inOrder(value);
  return ordered === undefined ? written(value) : JSON.stringify(ordered);
}

/** SHA-256 over the canonical form, lower-case hexadecimal. */
export function digestOf(value: JsonValue): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
