import type { Pool } from "pg";
import type { SigningKeys } from "../authority/index.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { ControlChange } from "../ledger/index.ts";
import type { Page, PageRequest } from "../registry/index.ts";
import { RevocationEntity, type RevocationRow } from "../store/authority-entities.ts";
import type { Database } from "../store/database.ts";
import { readChange } from "../store/sql/read-change.ts";
import { type Certificate, type CertificateBody, certificateDigest, isSignatureValid } from "./certificate.ts";

/** A certificate from its row. */
export function certificateFromRow({ body, signature, keyId }: RevocationRow): Certificate {
  return { body: JSON.parse(body) as CertificateBody, canonicalBody: body, signature, keyId };
}

/** Whether the log holds the digest of exactly this body at the index that the body names. */
async function isInLog(pool: Pool, { body, canonicalBody }: Certificate): Promise<boolean> {
  const values = [body.workspace_id, body.ledger_seq];
  const { rows } = await pool.query<{ body: string }>({ ...readChange, values });
  const change = rows[0] === undefined ? undefined : (JSON.parse(rows[0].body) as ControlChange);
  return change?.type === "agent_revoked" && change.certificate_digest === certificateDigest(canonicalBody);
}

/** A stored certificate with what verifying it again came to. */
export interface VerifiedCertificate {
  readonly certificate: Certificate;
  /** True if the signature verifies and the log holds the same body. */
  readonly isValid: boolean;
}

async function verified(pool: Pool, keys: SigningKeys, row: RevocationRow): Promise<VerifiedCertificate> {
  try {
    const certificate = certificateFromRow(row);
    return { certificate, isValid: (await isSignatureValid(keys, certificate)) && (await isInLog(pool, certificate)) };
  } catch (error) {
    // A body that was changed in the database may be no JSON any more; what is stored is shown, and it is not valid.
    if (!(error instanceof SyntaxError)) throw error;
    const { body, signature, keyId } = row;
    return { certificate: { body: {} as CertificateBody, canonicalBody: body, signature, keyId }, isValid: false };
  }
}

/** Reads a certificate and verifies it again. Throws REVOCATION_NOT_FOUND. */
export async function getRevocation(
  { orm, pool }: Database,
  keys: SigningKeys,
  workspaceId: string,
  revocationId: string,
): Promise<VerifiedCertificate> {
  const row = await orm.em.fork().findOne(RevocationEntity, { workspaceId, revocationId });
  if (row !== null) return verified(pool, keys, row);
  const metadata = { revocation_id: revocationId };
  throw new ControlPlaneError(ErrorReason.REVOCATION_NOT_FOUND, `no revocation \`${revocationId}\``, metadata);
}

/** Lists the certificates of a workspace, newest first; a page continues after an index in the log. */
export async function listRevocations(
  { orm }: Database,
  workspaceId: string,
  { size, after }: PageRequest,
): Promise<Page<Certificate>> {
  const where = after === undefined ? { workspaceId } : { workspaceId, seq: { $lt: after } };
  const rows = await orm.em.fork().find(RevocationEntity, where, { orderBy: { seq: "desc" }, limit: size + 1 });
  const items = rows.slice(0, size);
  const last = items.at(-1);
  return { items: items.map(certificateFromRow), next: rows.length > size ? last?.seq : undefined };
}
