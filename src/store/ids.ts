import { hash, randomUUID } from "node:crypto";

/** The prefixes of the ids that the service gives, one for each kind of resource. */
export type IdPrefix =
  | "agt"
  | "dec"
  | "esc"
  | "mnd"
  | "prp"
  | "bkt"
  | "dep"
  | "key"
  | "per"
  | "ent"
  | "ses"
  | "crd"
  | "grt"
  | "tmw"
  | "itc"
  | "fed"
  | "mtp"
  | "rev"
  | "inc"
  | "clm"
  | "out"
  | "stl"
  | "nch"
  | "obs"
  | "msg";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** Writes bytes as lower-case RFC 4648 base32 without padding: 26 characters for 16 bytes. */
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

/** Creates a UUIDv7 (RFC 9562 §5.7) as 16 bytes. */
export function createUuidV7(nowMs: number): Uint8Array {
  // A UUIDv4 has the same variant, and Node draws its random bits in advance.
  const bytes = Buffer.from(randomUUID().replaceAll("-", ""), "hex");
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes.writeUInt8(0x70 | (bytes.readUInt8(6) & 0x0f), 6);
  return bytes;
}

/** Creates an id: the prefix, `_` and the lower-case base32 of a UUIDv7. */
export function createId(prefix: IdPrefix): string {
  return `${prefix}_${base32FromBytes(createUuidV7(Date.now()))}`;
}

/** Maps a UUID that a caller gave to an id, so that a retry names the same resource. */
export function idFromUuid(prefix: IdPrefix, uuid: string): string {
  return `${prefix}_${base32FromBytes(Buffer.from(uuid.replaceAll("-", ""), "hex"))}`;
}

/** Maps a text to an id, so that the same text names the same resource. */
export function idFromDigest(prefix: IdPrefix, text: string): string {
  return `${prefix}_${base32FromBytes(hash("sha256", text, "buffer").subarray(0, 16))}`;
}

/** Returns the id with the same UUID and another prefix: an escalation shares the UUID of the decision that created it. */
export function idWithPrefix(prefix: IdPrefix, id: string): string {
  return `${prefix}${id.slice(id.indexOf("_"))}`;
}
