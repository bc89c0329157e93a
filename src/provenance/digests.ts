import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import type { ValueKind } from "./sources.ts";

/** Digests of values under the key of a session: HMAC-SHA-256 (RFC 2104), of which the first eight bytes are kept. */

/** Bytes of a digest. */
export const DIGEST_BYTES = 8;
/** Bytes of the key of a session. */
export const KEY_BYTES = 32;

/** Returns the digest of a value in its compared form. A `KeyObject` is read once, which bytes would be for every digest. */
export const digestOf = (key: KeyObject, form: string): Buffer =>
  createHmac("sha256", key).update(form).digest().subarray(0, DIGEST_BYTES);

/** Returns the text of which the digest stands for an approval of a value for a kind. No form holds U+0000. */
export const approvedForm = (kind: ValueKind, form: string): string => `${kind}\u0000${form}`;

/** Copies bytes into memory of their own. A small buffer is often a part of a pool, which all of it stays in memory with. */
export function ownedBytes(bytes: Uint8Array): Buffer {
  const owned = Buffer.alloc(bytes.length);
  owned.set(bytes);
  return owned;
}

/** Digests that are made before others may have a turn. */
const AT_ONCE = 500;

/**
 * Returns the digests of some values, sorted, without duplicates, joined, in memory of their own. Pauses, since many take longer than
 * a turn.
 */
export function* packDigests(key: Uint8Array, forms: Iterable<string>): Generator<undefined, Buffer, undefined> {
  const digests = new Set<bigint>();
  const secret = createSecretKey(key);
  for (const form of new Set(forms)) {
    digests.add(digestOf(secret, form).readBigUInt64BE());
    if (digests.size % AT_ONCE === 0) yield;
  }
  const packed = Buffer.alloc(digests.size * DIGEST_BYTES);
  for (const [index, digest] of BigUint64Array.from(digests).sort().entries())
    packed.writeBigUInt64BE(digest, index * DIGEST_BYTES);
  return packed;
}
