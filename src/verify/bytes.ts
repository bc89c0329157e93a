/** Bytes in an ArrayBuffer of their own, as Web Crypto requires. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Length of a SHA-256 hash in bytes. */
export const HASH_BYTES = 32;

const encoder = new TextEncoder();

/** Encodes a text as UTF-8. */
export const utf8 = (text: string): Bytes => encoder.encode(text);

/** Joins bytes. */
export function joined(...parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Tests whether two byte strings are the same. */
export const areEqual = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);

/** Writes bytes in lower-case hexadecimal. */
export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Arguments that every engine accepts in one call. */
const CHUNK = 0x8000;

/** Writes bytes in standard base64. */
export function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

/** Writes bytes in base64url without padding. */
export const base64Url = (bytes: Uint8Array): string =>
  base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** Decodes standard base64 strictly; undefined for any other text, or for a length other than `length` bytes. */
export function bytesFromBase64(text: unknown, length?: number): Bytes | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
    // `atob` ignores white space, missing padding and surplus bits.
    if (btoa(binary) !== text) return undefined;
    return length === undefined || bytes.length === length ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a list of SHA-256 hashes in base64. */
export function hashesFrom(value: unknown): readonly Bytes[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const hashes = value.flatMap((each) => bytesFromBase64(each, HASH_BYTES) ?? []);
  return hashes.length === value.length ? hashes : undefined;
}

/** Hashes with SHA-256. */
export async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
