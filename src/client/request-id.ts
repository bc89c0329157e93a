const BYTES = 16;
// FNV-1a with 128 bits (RFC 9923).
const FNV_OFFSET = 0x6c62272e07bb014262b821756295c58dn;
const FNV_PRIME = 0x1000000000000000000013bn;

/** Creates a random UUID. Browsers offer `crypto.randomUUID` only on secure origins, but random values everywhere. */
export function createRequestId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return uuidFrom(crypto.getRandomValues(new Uint8Array(BYTES)), 4);
}

/**
 * Derives the `request_id` with which a call presents an approval. It is the same for every attempt of one call with one
 * escalation, so that a lost reply does not cost a second approval. It is a UUIDv8 (RFC 9562) of the hash of both ids.
 */
export function presentationId(requestId: string, escalationId: string): string {
  let hash = FNV_OFFSET;
  for (const character of `${requestId} ${escalationId}`) {
    hash = BigInt.asUintN(8 * BYTES, (hash ^ BigInt(character.charCodeAt(0))) * FNV_PRIME);
  }
  return uuidFrom(
    Uint8Array.from({ length: BYTES }, (_, index) => Number((hash >> BigInt(8 * index)) & 0xffn)),
    8,
  );
}

/** Writes bytes as a UUID of a version. */
function uuidFrom(bytes: Uint8Array, version: number): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | (version << 4);
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
