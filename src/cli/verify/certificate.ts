import { type JsonMembers, objectFromCanonical } from "./canonical-text.ts";
import { bytesFromBase64, isMembers, required, textFrom } from "./form.ts";
import { type PublicKey, publicKeyFromPem } from "./public-key.ts";
import { VerificationError } from "./verification-error.ts";

/** A revocation certificate that verifies. */
export interface VerifiedCertificate {
  /** What was signed, parsed. */
  readonly body: JsonMembers;
  readonly key: PublicKey;
}

/** What stands beside the signed members. */
const BESIDE: ReadonlySet<string> = new Set(["signature", "public_key", "canonical_body"]);

const WHERE = "the certificate";
const isTime = (text: unknown): text is string => typeof text === "string" && /^\d{4}-\d\d-\d\dT/.test(text);

/** Whether two JSON values say the same; a time may be written with other fractions, a number as digits. */
function saySame(shown: unknown, signed: unknown): boolean {
  if (shown === signed) return true;
  if (isTime(shown) && isTime(signed)) return Date.parse(shown) === Date.parse(signed);
  if (typeof signed === "number") return String(shown) === String(signed);
  if (Array.isArray(signed)) {
    return (
      Array.isArray(shown) && shown.length === signed.length && shown.every((each, at) => saySame(each, signed[at]))
    );
  }
  if (!isMembers(signed) || !isMembers(shown)) return false;
  return [...new Set([...Object.keys(shown), ...Object.keys(signed)])].every((name) =>
    saySame(shown[name], signed[name]),
  );
}

function assertShown(certificate: JsonMembers, body: JsonMembers): void {
  const names = Object.keys({ ...certificate, ...body }).filter((name) => !BESIDE.has(name));
  const wrong = names.find((name) => !saySame(certificate[name], body[name]));
  if (wrong === undefined) return;
  throw new VerificationError("contradiction", `${WHERE} says another \`${wrong}\` than its signed body`);
}

function assertCounts({ counts, revoked }: JsonMembers): void {
  const kinds = isMembers(counts) && isMembers(revoked) ? Object.keys({ ...counts, ...revoked }) : [];
  const lists = revoked as JsonMembers;
  const wrong = kinds.find(
    (kind) => (lists[kind] as readonly unknown[] | undefined)?.length !== (counts as JsonMembers)[kind],
  );
  if (wrong === undefined && kinds.length > 0) return;
  throw new VerificationError("contradiction", `${WHERE} counts \`${wrong ?? "nothing"}\` otherwise than it lists`);
}

function keyFor(certificate: JsonMembers, body: JsonMembers, pinned: readonly PublicKey[] | undefined): PublicKey {
  const own = publicKeyFromPem(required(textFrom(certificate.public_key), WHERE, "`public_key`"));
  const key = (pinned ?? (own === undefined ? [] : [own])).find(({ thumbprint }) => thumbprint === body.key_id);
  if (key !== undefined) return key;
  const why = pinned === undefined ? "its `public_key` is another one" : "it is none of the keys that are trusted";
  throw new VerificationError("signature", `${WHERE} was signed with key \`${String(body.key_id)}\`, and ${why}`);
}

/**
 * Verifies a revocation certificate with its own key, or with the pinned ones alone: the signature over the signed body,
 * and that everything shown beside is what the body says. Throws `VerificationError`.
 */
export function verifyCertificate(certificate: JsonMembers, pinned?: readonly PublicKey[]): VerifiedCertificate {
  const text = required(textFrom(certificate.canonical_body), WHERE, "`canonical_body`");
  const signature = required(bytesFromBase64(certificate.signature), WHERE, "`signature` in base64");
  const body = objectFromCanonical(text);
  if (body === undefined) {
    throw new VerificationError("canonical", `${WHERE}'s signed body is no canonical JSON object (RFC 8785)`);
  }
  const key = keyFor(certificate, body, pinned);
  if (!key.signed(Buffer.from(text, "utf8"), signature)) {
    throw new VerificationError("signature", `${WHERE}'s signature does not fit its body`);
  }
  assertShown(certificate, body);
  assertCounts(body);
  return { body, key };
}
