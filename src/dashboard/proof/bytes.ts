/** Bytes in memory of their own, as Web Crypto takes them. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Bytes of a SHA-256 hash. */
export const HASH_BYTES = 32;

/** Encodes a text as UTF-8. */
export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

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

const CHUNK = 0x8000;

/** Writes bytes in standard base64. */
export function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK) binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

/** Decodes standard base64 strictly; undefined for any other text. */
export function bytesFromBase64(text: string): Bytes | undefined {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return base64(bytes) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}

/** Hashes with SHA-256. */
export async function sha256(bytes: Uint8Array): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(bytes)));
}

/** False where the browser withholds cryptography: on pages that came over http from another machine. */
export const canHash = (): boolean => (globalThis.crypto as Partial<Crypto> | undefined)?.subtle !== undefined;
