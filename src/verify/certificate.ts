import { bytesFromBase64, utf8 } from "./bytes.ts";
import { isJsonRecord, type JsonRecord, listAt, numberAt, parseCanonicalObject, required, stringFrom } from "./json.ts";
import { assertSignedInTime, type PublicKey, publicKeyFromPem } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** A verified revocation certificate. */
export interface VerifiedCertificate {
  /** Signed members. */
  readonly body: JsonRecord;
  readonly key: PublicKey;
}

/** Members of a certificate outside its signed body. */
const UNSIGNED: ReadonlySet<string> = new Set(["signature", "public_key", "canonical_body", "revoked_by_name"]);

const WHERE = "the certificate";

/**
 * Verifies a revocation certificate with its own key, which has to be among the trusted keys if they are given: the
 * signature over the signed body, and the equality of every other member with the body's. Throws `VerificationError`.
 */
export async function verifyCertificate(
  certificate: JsonRecord,
  trusted?: readonly PublicKey[],
): Promise<VerifiedCertificate> {
  const body = parseCertificate(certificate);
  const key = await certificateKey(certificate, trusted);
  await assertCertificateSigned(certificate, key);
  assertMatchesBody(certificate);
  assertCounts(body);
  return { body, key };
}

/** Returns the signed body of a certificate. Throws `malformed` if it is missing, `canonical` if it has another form. */
export function parseCertificate(certificate: JsonRecord): JsonRecord {
  const body = parseCanonicalObject(textOf(certificate));
  if (body !== undefined) return body;
  throw new VerificationError("canonical", `${WHERE}'s signed body is no canonical JSON object (RFC 8785)`);
}

const textOf = ({ canonical_body: text }: JsonRecord): string => required(stringFrom(text), WHERE, "`canonical_body`");

/**
 * Returns the key of a certificate: its `public_key`, which the signed body has to name, in the form it has among the
 * trusted keys. Throws `signature` for another key, and for a key retired before the revocation.
 */
export async function certificateKey(certificate: JsonRecord, trusted?: readonly PublicKey[]): Promise<PublicKey> {
  const { key_id: keyId, revoked_at: revokedAt } = parseCertificate(certificate);
  const pem = required(stringFrom(certificate.public_key), WHERE, "`public_key`");
  const own = await publicKeyFromPem(pem);
  const refuse = (why: string): never => {
    throw new VerificationError("signature", `${WHERE} was signed with key \`${String(keyId)}\`, ${why}`);
  };
  if (own?.pem.trim() !== pem.trim() || own.thumbprint !== keyId) return refuse("which is not its `public_key`");
  const key = trusted === undefined ? own : trusted.find(({ thumbprint }) => thumbprint === keyId);
  if (key === undefined) return refuse("which is not among the trusted keys");
  assertSignedInTime(key, WHERE, revokedAt);
  return key;
}

/** Refuses a certificate unless the key signed its body. */
export async function assertCertificateSigned(certificate: JsonRecord, key: PublicKey): Promise<void> {
  const signature = required(bytesFromBase64(certificate.signature), WHERE, "`signature` in base64");
  if (await key.hasSigned(utf8(textOf(certificate)), signature)) return;
  throw new VerificationError("signature", `${WHERE}'s signature does not match its body`);
}

/** Refuses a certificate whose other members differ from its signed body. */
export function assertMatchesBody(certificate: JsonRecord): void {
  const body = parseCertificate(certificate);
  const names = Object.keys({ ...certificate, ...body }).filter((name) => !UNSIGNED.has(name));
  const wrong = names.find((name) => !isEquivalent(certificate[name], body[name]));
  if (wrong === undefined) return;
  throw new VerificationError("contradiction", `${WHERE}'s \`${wrong}\` differs from its signed body`);
}

/** Compares a shown value with a signed one. Trailing zeros of a time, and numbers written as strings, count as equal. */
function isEquivalent(shown: unknown, signed: unknown): boolean {
  if (shown === signed) return true;
  if (isTime(shown) && isTime(signed)) return shortTime(shown) === shortTime(signed);
  if (typeof signed === "number") return String(shown) === String(signed);
  if (Array.isArray(signed)) {
    const isSameLength = Array.isArray(shown) && shown.length === signed.length;
    return isSameLength && signed.every((each, at) => isEquivalent(shown[at], each));
  }
  if (!isJsonRecord(signed) || !isJsonRecord(shown)) return false;
  return Object.keys({ ...shown, ...signed }).every((name) => isEquivalent(shown[name], signed[name]));
}

const isTime = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\dT/.test(text);

const shortTime = (time: string): string => time.replace(/(\.\d*?)0*Z$/, "$1Z").replace(/\.Z$/, "Z");

/** Refuses a signed body whose counts differ from the lengths of its lists. */
export function assertCounts(body: JsonRecord): void {
  const kinds = [body.counts, body.revoked].flatMap((each) => (isJsonRecord(each) ? Object.keys(each) : []));
  const wrong = kinds.find((kind) => listAt(body, `revoked.${kind}`).length !== numberAt(body, `counts.${kind}`));
  if (wrong === undefined && kinds.length > 0) return;
  const where = wrong === undefined ? "" : ` of \`${wrong}\``;
  throw new VerificationError("contradiction", `${WHERE}'s counts differ from its lists${where}`);
}
