import type { Pool } from "pg";
import type { SigningKeys } from "../authority/signing-key.ts";
import { ErrorReason, notFound } from "../errors.ts";
import { latestFirst, type Page, type PageRequest, readPage } from "../registry/page.ts";
import type { ControlChange } from "../state/control-changes.ts";
import type { Database } from "../store/database.ts";
import { IncidentEntity, type IncidentRow, RevocationEntity, type RevocationRow } from "../store/entities.ts";
import { readChange } from "../store/sql/read-entries.ts";
import {
  type CertificateBody,
  certificateBodyFrom,
  certificateDigest,
  isSignatureValid,
  type StoredCertificate,
} from "./certificate.ts";

/** Reads a certificate from its row. */
export function certificateFromRow({ revocationId, body, signature, keyId }: RevocationRow): StoredCertificate {
  return { revocationId, body: certificateBodyFrom(body), canonicalBody: body, signature, keyId };
}

/** Tests that a body belongs to this row and not to another revocation. */
function isOfRow(body: CertificateBody, { revocationId, workspaceId, agentId, seq, keyId }: RevocationRow): boolean {
  const { revocation_id, workspace_id, agent_id, ledger_seq, key_id } = body;
  const isSame = revocation_id === revocationId && workspace_id === workspaceId && agent_id === agentId;
  return isSame && ledger_seq === seq && key_id === keyId;
}

/** Tests that the log has the digest of exactly this body. */
async function isInLog(pool: Pool, { workspaceId, seq, body }: RevocationRow): Promise<boolean> {
  const { rows } = await pool.query<{ body: string }>({ ...readChange, values: [workspaceId, seq] });
  const change = rows[0] === undefined ? undefined : (JSON.parse(rows[0].body) as ControlChange);
  return change?.type === "agent_revoked" && change.certificate_digest === certificateDigest(body);
}

/** A stored certificate, verified again. */
export interface VerifiedCertificate {
  readonly certificate: StoredCertificate;
  /** True if the signature verifies, the body is this revocation's, and the log has its digest. */
  readonly isValid: boolean;
}

async function verified(pool: Pool, keys: SigningKeys, row: RevocationRow): Promise<VerifiedCertificate> {
  const certificate = certificateFromRow(row);
  const { body } = certificate;
  const isWhole = body !== undefined && isOfRow(body, row) && (await isSignatureValid(keys, { ...certificate, body }));
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
  throw notFound(ErrorReason.REVOCATION_NOT_FOUND, "revocation", { revocation_id: revocationId });
}

/** Lists the certificates of a workspace, newest first; a position is an index in the log. */
export async function listRevocations(
  { orm }: Database,
  workspaceId: string,
  page: PageRequest,
): Promise<Page<StoredCertificate>> {
  const read = (chunk: PageRequest): Promise<RevocationRow[]> => {
    const { where, options } = latestFirst("seq", chunk);
    return orm.em.fork().find(RevocationEntity, { workspaceId, ...where }, options);
  };
  const { items, next } = await readPage(page, ({ seq }: RevocationRow) => seq, read);
  return { items: items.map(certificateFromRow), next };
}

/** Reads one incident. Throws INCIDENT_NOT_FOUND. */
export async function getIncident({ orm }: Database, workspaceId: string, incidentId: string): Promise<IncidentRow> {
  const row = await orm.em.fork().findOne(IncidentEntity, { workspaceId, incidentId });
  if (row !== null) return row;
  throw notFound(ErrorReason.INCIDENT_NOT_FOUND, "incident", { incident_id: incidentId });
}

/** Lists the incidents of a workspace, newest first; a position is an index in the log. */
export async function listIncidents(
  { orm }: Database,
  workspaceId: string,
  page: PageRequest,
): Promise<Page<IncidentRow>> {
  const read = (chunk: PageRequest): Promise<IncidentRow[]> => {
    const { where, options } = latestFirst("createdSeq", chunk);
    return orm.em.fork().find(IncidentEntity, { workspaceId, ...where }, options);
  };
  return readPage(page, ({ createdSeq }: IncidentRow) => createdSeq, read);
}
