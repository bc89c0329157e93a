import { createHash } from "node:crypto";
import canonicalize from "canonicalize";

/** A JSON value. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
/** A JSON object. Members that are `undefined` are omitted, as by `JSON.stringify`. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/**
 * Writes the RFC 8785 (JSON Canonicalization Scheme) form of a value. Throws TypeError for values that I-JSON (RFC 7493)
 * cannot hold: NaN, infinities and lone surrogates.
 */
export function canonicalJson(value: JsonValue): string {
  try {
    return canonicalize(value) as string;
  } catch (cause) {
    throw new TypeError("the value has no canonical JSON form", { cause });
  }
}

/** Returns the SHA-256 of the canonical form in lower-case hexadecimal. */
export function digestOf(value: JsonValue): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
