import { randomFillSync } from "node:crypto";

/** The prefixes of the ids that the service gives, one for each kind of resource. */
export type IdPrefix =
  | "agt"
  | "dec"
  | "esc"
  | "mnd"
  | "dep"
  | "key"
  | "ent"
  | "ses"
  | "crd"
  | "grt"
  | "tmw"
  | "itc"
  | "fed"
  | "mtp"
  | "rev"
  | "inc";

/** Makes ids; passed in so that tests can make them predictable. */
export type IdSource = (prefix: IdPrefix) => string;

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";
const POOL_BYTES = 4096;
const RANDOM_BYTES = 10;
const pool = Buffer.alloc(POOL_BYTES);
let used = POOL_BYTES;

/** Lower-case RFC 4648 base32 without padding: 26 characters for 16 bytes. */
export function base32FromBytes(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >>> bits) & 31];
    }
  }
  return bits === 0 ? text : text + ALPHABET[(value << (5 - bits)) & 31];
}

function takeRandom(target: Uint8Array): void {
  if (used + RANDOM_BYTES > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  target.set(pool.subarray(used, used + RANDOM_BYTES), 6);
  used += RANDOM_BYTES;
}

/** A UUIDv7 (RFC 9562 §5.7) as 16 bytes; the random part comes from the system's generator. */
export function createUuidV7(nowMs: number): Uint8Array {
  const bytes = new Uint8Array(16);
  takeRandom(bytes);
  bytes[0] = nowMs / 2 ** 40;
  bytes[1] = nowMs / 2 ** 32;
  bytes[2] = nowMs / 2 ** 24;
  bytes[3] = nowMs / 2 ** 16;
  bytes[4] = nowMs / 2 ** 8;
  bytes[5] = nowMs;
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  return bytes;
}

/** A new id: the prefix, `_` and the lower-case base32 of a UUIDv7. */
export const createId: IdSource = (prefix) => `${prefix}_${base32FromBytes(createUuidV7(Date.now()))}`;

/** The id that a UUID given by a caller stands for, so that a retry names the same resource. */
export function idFromUuid(prefix: IdPrefix, uuid: string): string {
  return `${prefix}_${base32FromBytes(Buffer.from(uuid.replaceAll("-", ""), "hex"))}`;
}

/** The same UUID under another prefix: an escalation shares the UUID of the decision that made it. */
export function idWithPrefix(prefix: IdPrefix, id: string): string {
  return `${prefix}${id.slice(id.indexOf("_"))}`;
}
