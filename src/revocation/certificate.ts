import { createHash, verify } from "node:crypto";
import type { SigningKeys } from "../authority/signing-key.ts";
import type { RevokedIds } from "../state/control-changes.ts";
import { canonicalJson } from "../tree/canonical.ts";

/** An item that a revocation ended, as the certificate lists it. */
type RevokedItem = {
  readonly id: string;
  /** RFC 3339 UTC. */
  readonly at: string;
};

/** The signed statement, before its RFC 8785 form. */
export type CertificateBody = {
  readonly revocation_id: string;
  readonly workspace_id: string;
  readonly agent_id: string;
  readonly agent_name: string;
  readonly reason: string;
  readonly revoked_at: string;
  readonly revoked_by: string;
  readonly revoked: { readonly [K in keyof RevokedIds]: readonly RevokedItem[] };
  readonly counts: { readonly [K in keyof RevokedIds]: number };
  readonly ledger_seq: number;
  readonly key_id: string;
};

/** A certificate as it is stored: the exact bytes that were signed, and the signature. */
export interface StoredCertificate {
  readonly revocationId: string;
  /** The parsed bytes; undefined if they were altered and no longer form a certificate. */
  readonly body: CertificateBody | undefined;
  readonly canonicalBody: string;
  /** ECDSA P-256 with SHA-256, DER. */
  readonly signature: Uint8Array;
  readonly keyId: string;
}

/** A certificate that was just signed. */
export interface Certificate extends StoredCertificate {
  readonly body: CertificateBody;
}

/** A certificate's fields beside those that follow from the ended items and the key. */
type CertificateDraft = Omit<CertificateBody, "revoked" | "counts" | "key_id">;

const KINDS = [
  "sessions",
  "credentials",
  "grants_given",
  "grants_received",
  "temporal_windows",
  "intent_contracts",
  "federation_tokens",
  "mcp_tool_policies",
] as const satisfies readonly (keyof RevokedIds)[];

function byKind<T>(ended: RevokedIds, valueFrom: (ids: readonly string[]) => T): { [K in keyof RevokedIds]: T } {
  return Object.fromEntries(KINDS.map((kind) => [kind, valueFrom(ended[kind])])) as { [K in keyof RevokedIds]: T };
}

/** Signs the list of the items that a revocation ended. */
export function signCertificate(keys: SigningKeys, draft: CertificateDraft, ended: RevokedIds): Certificate {
  const body: CertificateBody = {
    ...draft,
    revoked: byKind(ended, (ids) => ids.map((id) => ({ id, at: draft.revoked_at }))),
    counts: byKind(ended, (ids) => ids.length),
    key_id: keys.keyId,
  };
  const canonicalBody = canonicalJson(body);
  const signature = keys.sign(Buffer.from(canonicalBody));
  return { revocationId: draft.revocation_id, body, canonicalBody, signature, keyId: keys.keyId };
}

const TEXTS = [
  "revocation_id",
  "workspace_id",
  "agent_id",
  "agent_name",
  "reason",
  "revoked_at",
  "revoked_by",
  "key_id",
] as const satisfies readonly (keyof CertificateBody)[];

type Unchecked = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Unchecked => typeof value === "object" && value !== null;
const isTime = (value: unknown): boolean => typeof value === "string" && !Number.isNaN(Date.parse(value));
const isCount = (value: unknown): boolean => Number.isInteger(value) && Math.abs(value as number) < 2 ** 31;
const isItem = (value: unknown): boolean => isObject(value) && typeof value.id === "string" && isTime(value.at);

function isCertificateBody(value: unknown): value is CertificateBody {
  if (!isObject(value) || !TEXTS.every((name) => typeof value[name] === "string")) return false;
  const { revoked, counts, revoked_at, ledger_seq } = value;
  if (!isTime(revoked_at) || !Number.isSafeInteger(ledger_seq) || !isObject(revoked) || !isObject(counts)) return false;
  return KINDS.every((kind) => {
    const items = revoked[kind];
    return Array.isArray(items) && items.every(isItem) && isCount(counts[kind]);
  });
}

/** Parses the body of a certificate; undefined for anything else, since the database may have been tampered with. */
export function certificateBodyFrom(text: string): CertificateBody | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isCertificateBody(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the SHA-256 of a certificate's canonical body in lower-case hexadecimal, as the log has it. */
export function certificateDigest(canonicalBody: string): string {
  return createHash("sha256").update(canonicalBody).digest("hex");
}

/** Verifies the signature with the sealed key that the certificate names, unless it was retired before the revocation. */
export async function isSignatureValid(
  keys: SigningKeys,
  { body, canonicalBody, signature, keyId }: Certificate,
): Promise<boolean> {
  const key = await keys.find(body.workspace_id, keyId);
  if (key === undefined || (key.retired !== null && body.ledger_seq > key.retired.seq)) return false;
  return verify("sha256", Buffer.from(canonicalBody), key.publicKey, signature);
}
