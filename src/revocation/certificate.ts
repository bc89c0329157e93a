import { createHash, verify } from "node:crypto";
import type { SigningKeys } from "../authority/index.ts";
import { canonicalJson, type RevokedIds } from "../ledger/index.ts";

/** One thing that a revocation ended, as the certificate lists it. */
export type RevokedItem = {
  readonly id: string;
  /** RFC 3339 UTC. */
  readonly at: string;
};

/** What is signed, before its RFC 8785 form. */
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

/** A revocation certificate: the exact bytes that were signed, and the signature. */
export interface Certificate {
  readonly body: CertificateBody;
  readonly canonicalBody: string;
  /** ECDSA P-256 with SHA-256, DER. */
  readonly signature: Uint8Array;
  readonly keyId: string;
}

/** What a certificate is made of. */
export type CertificateDraft = Omit<CertificateBody, "revoked" | "counts" | "key_id">;

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

/** Signs what a revocation ended. */
export function signCertificate(keys: SigningKeys, draft: CertificateDraft, ended: RevokedIds): Certificate {
  const body: CertificateBody = {
    ...draft,
    revoked: byKind(ended, (ids) => ids.map((id) => ({ id, at: draft.revoked_at }))),
    counts: byKind(ended, (ids) => ids.length),
    key_id: keys.keyId,
  };
  const canonicalBody = canonicalJson(body);
  return { body, canonicalBody, signature: keys.sign(Buffer.from(canonicalBody)), keyId: keys.keyId };
}

/** SHA-256 of a certificate's canonical body, lower-case hexadecimal: what the log holds of it. */
export function certificateDigest(canonicalBody: string): string {
  return createHash("sha256").update(canonicalBody).digest("hex");
}

/** Whether the signature verifies over the body with a key that the service signs or signed with. */
export async function isSignatureValid(keys: SigningKeys, certificate: Certificate): Promise<boolean> {
  const publicKey = await keys.publicKeyOf(certificate.keyId);
  if (publicKey === undefined) return false;
  return verify("sha256", Buffer.from(certificate.canonicalBody), publicKey, certificate.signature);
}
