import type { Pool } from "pg";
import type { SigningKeys } from "../authority/signing-key.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Page, PageRequest } from "../registry/page.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { RevocationEntity, type RevocationRow } from "../store/entities.ts";
import { readChange } from "../store/sql/read-change.ts";
import {
  type CertificateBody,
  certificateBodyFrom,
  certificateDigest,
  isSignatureValid,
  type StoredCertificate,
} from "./certificate.ts";

/** A certificate from its row. */
export function certificateFromRow({ revocationId, body, signature, keyId }: RevocationRow): StoredCertificate {
  return { revocationId, body: certificateBodyFrom(body), canonicalBody: body, signature, keyId };
}

/** Whether a body is the one of its row, and not that of another revocation. */
function isOfRow(body: CertificateBody, { revocationId, workspaceId, agentId, seq, keyId }: RevocationRow): boolean {
  const { revocation_id, workspace_id, agent_id, ledger_seq, key_id } = body;
  const isSame = revocation_id === revocationId && workspace_id === workspaceId && agent_id === agentId;
  return isSame && ledger_seq === seq && key_id === keyId;
}

/** Whether the log holds the digest of exactly this body. */
async function isInLog(pool: Pool, { workspaceId, seq, body }: RevocationRow): Promise<boolean> {
  const { rows } = await pool.query<{ body: string }>({ ...readChange, values: [workspaceId, seq] });
  const change = rows[0] === undefined ? undefined : (JSON.parse(rows[0].body) as ControlChange);
  return change?.type === "agent_revoked" && change.certificate_digest === certificateDigest(body);
}

/** A stored certificate with what verifying it again came to. */
export interface VerifiedCertificate {
  readonly certificate: StoredCertificate;
  /** True if the signature verifies, the body is the one of this revocation, and the log holds the same body. */
  readonly isValid: boolean;
}

async function verified(pool: Pool, keys: SigningKeys, row: RevocationRow): Promise<VerifiedCertificate> {
  const certificate = certificateFromRow(row);
  const { body } = certificate;
  const isWhole = body !== undefined && isOfRow(body, row) && (await isSignatureValid(keys, certificate));
  return { certificate, isValid: isWhole && (await isInLog(pool, row)) };
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
): Promise<Page<StoredCertificate>> {
  const where = after === undefined ? { workspaceId } : { workspaceId, seq: { $lt: after } };
  const rows = await orm.em.fork().find(RevocationEntity, where, { orderBy: { seq: "desc" }, limit: size + 1 });
  const items = rows.slice(0, size);
  const last = items.at(-1);
  return { items: items.map(certificateFromRow), next: rows.length > size ? last?.seq : undefined };
}
