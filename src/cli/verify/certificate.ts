import { assertSignedInTime, type PublicKey, publicKeyFromPem } from "./checkpoint.ts";
import { base64Bytes, isJsonRecord, type JsonRecord, parseCanonicalObject, required, stringFrom } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

/** A verified revocation certificate. */
export interface VerifiedCertificate {
  /** The signed members. */
  readonly body: JsonRecord;
  readonly key: PublicKey;
}

/** Members of a certificate that are not part of its signed body. */
const UNSIGNED: ReadonlySet<string> = new Set(["signature", "public_key", "canonical_body"]);

const WHERE = "the certificate";

/**
 * Verifies a revocation certificate with its own key, or with the pinned keys only: the signature over the signed body, and
 * that every other member equals the body's. Throws `VerificationError`.
 */
export function verifyCertificate(certificate: JsonRecord, pinned?: readonly PublicKey[]): VerifiedCertificate {
  const text = required(stringFrom(certificate.canonical_body), WHERE, "`canonical_body`");
  const signature = required(base64Bytes(certificate.signature), WHERE, "`signature` in base64");
  const body = parseCanonicalObject(text);
  if (body === undefined) {
    throw new VerificationError("canonical", `${WHERE}'s signed body is no canonical JSON object (RFC 8785)`);
  }
  const key = keyFor(certificate, body, pinned);
  if (!key.signed(Buffer.from(text, "utf8"), signature)) {
    throw new VerificationError("signature", `${WHERE}'s signature does not match its body`);
  }
  assertSignedInTime(key, WHERE, body.revoked_at);
  assertMatchesBody(certificate, body);
  assertCounts(body);
  return { body, key };
}

function keyFor(certificate: JsonRecord, body: JsonRecord, pinned: readonly PublicKey[] | undefined): PublicKey {
  const own = publicKeyFromPem(required(stringFrom(certificate.public_key), WHERE, "`public_key`"));
  const key = (pinned ?? (own === undefined ? [] : [own])).find(({ thumbprint }) => thumbprint === body.key_id);
  if (key !== undefined) return key;
  const why = pinned === undefined ? "which is not its `public_key`" : "which is not among the trusted keys";
  throw new VerificationError("signature", `${WHERE} was signed with key \`${String(body.key_id)}\`, ${why}`);
}

function assertMatchesBody(certificate: JsonRecord, body: JsonRecord): void {
  const names = Object.keys({ ...certificate, ...body }).filter((name) => !UNSIGNED.has(name));
  const wrong = names.find((name) => !isEquivalent(certificate[name], body[name]));
  if (wrong === undefined) return;
  throw new VerificationError("contradiction", `${WHERE}'s \`${wrong}\` differs from its signed body`);
}

/** Compares a shown value with a signed one; the fractions of a time and a number written as digits may differ in form. */
function isEquivalent(shown: unknown, signed: unknown): boolean {
  if (shown === signed) return true;
  if (isTime(shown) && isTime(signed)) return Date.parse(shown) === Date.parse(signed);
  if (typeof signed === "number") return String(shown) === String(signed);
  if (Array.isArray(signed)) {
    const isSameLength = Array.isArray(shown) && shown.length === signed.length;
    return isSameLength && signed.every((each, at) => isEquivalent(shown[at], each));
  }
  if (!isJsonRecord(signed) || !isJsonRecord(shown)) return false;
  return Object.keys({ ...shown, ...signed }).every((name) => isEquivalent(shown[name], signed[name]));
}

const isTime = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\dT/.test(text);

function assertCounts({ counts, revoked }: JsonRecord): void {
  const kinds = isJsonRecord(counts) && isJsonRecord(revoked) ? Object.keys({ ...counts, ...revoked }) : [];
  const lists = revoked as JsonRecord;
  const wrong = kinds.find(
    (kind) => (lists[kind] as readonly unknown[] | undefined)?.length !== (counts as JsonRecord)[kind],
  );
  if (wrong === undefined && kinds.length > 0) return;
  throw new VerificationError(
    "contradiction",
    `${WHERE}'s counts differ from its lists${wrong === undefined ? "" : ` of \`${wrong}\``}`,
  );
}
