import type { SigningKeys } from "../authority/signing-key.ts";
import type { ChangeScope, WorkspaceLog } from "../log/workspace-log.ts";
import { getAgent } from "../registry/agents.ts";
import { checkedText } from "../registry/checked-text.ts";
import { numberFromAgentStatus, numberFromEscalationStatus } from "../state/stored-enums.ts";
import { AgentEntity, EscalationEntity, IncidentEntity, RevocationEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { type Cascade, cascadeOf } from "./cascade.ts";
import { type Certificate, certificateDigest, type StoredCertificate, signCertificate } from "./certificate.ts";
import { certificateFromRow } from "./find.ts";

/** Who revokes whom, and why. */
export interface RevokeCommand {
  readonly agentId: string;
  /** Empty when the caller said nothing. */
  readonly reason: string;
  /** The key that revokes. */
  readonly by: string;
}

const AGENT_REVOKED = 1;

/** Ends authority in its table, with the uses that the log has of it. */
const END_AUTHORITY = `update authority a set ended_at_ms = ?, uses = e.uses
  from unnest(?::text[], ?::bigint[]) as e (id, uses)
  where a.workspace_id = ? and a.id = e.id and a.ended_at_ms is null`;

async function endAuthority({ transaction, state, nowMs }: ChangeScope, { items }: Cascade): Promise<void> {
  if (items.length === 0) return;
  // Written as PostgreSQL's own array text: ids hold nothing that it would quote.
  const ids = `{${items.map(({ sealed }) => sealed.id).join(",")}}`;
  const uses = `{${items.map((item) => item.uses).join(",")}}`;
  await transaction.execute(END_AUTHORITY, [nowMs, ids, uses, state.workspaceId]);
}

/** Rejects what the agent waits for, so that every waiting call ends. */
async function rejectPending(scope: ChangeScope, { agentId, by }: RevokeCommand): Promise<void> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const { workspaceId } = state;
  const pending = await transaction.find(EscalationEntity, {
    workspaceId,
    agentId,
    status: numberFromEscalationStatus("pending"),
  });
  const note = "the agent was revoked";
  for (const escalation of pending) {
    const resolved = { resolvedSeq: nextSeq(), resolvedAtMs: nowMs, resolvedBy: by, note };
    transaction.assign(escalation, { ...resolved, status: numberFromEscalationStatus("rejected") });
    const { escalationId } = escalation;
    seal({ type: "escalation_resolved", escalation_id: escalationId, agent_id: agentId, resolution: "rejected", note });
  }
}

async function record(scope: ChangeScope, command: RevokeCommand, certificate: Certificate): Promise<void> {
  const { transaction, state, nowMs } = scope;
  const { workspaceId } = state;
  const { agentId, reason, by } = command;
  const { revocation_id: revocationId, ledger_seq: seq, agent_name } = certificate.body;
  await transaction.insert(RevocationEntity, {
    workspaceId,
    revocationId,
    agentId,
    seq,
    keyId: certificate.keyId,
    body: certificate.canonicalBody,
    signature: Buffer.from(certificate.signature),
  });
  await transaction.insert(IncidentEntity, {
    workspaceId,
    incidentId: createId("inc"),
    kind: AGENT_REVOKED,
    agentId,
    revocationId,
    summary: `agent ${agent_name} was revoked`,
    reason,
    createdBy: by,
    createdAtMs: nowMs,
    createdSeq: seq,
  });
}

/** The certificate of an agent that was revoked before; undefined when it was not. */
async function earlier({ transaction, state }: ChangeScope, agentId: string): Promise<StoredCertificate | undefined> {
  const row = await transaction.findOne(RevocationEntity, { workspaceId: state.workspaceId, agentId });
  return row === null ? undefined : certificateFromRow(row);
}

/** The cascade, in the order of the specification: the registration, then all authority, then what waits. */
async function revokeNow(scope: ChangeScope, keys: SigningKeys, command: RevokeCommand): Promise<Certificate> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const { agentId, reason, by } = command;
  const { workspaceId } = state;
  const agent = getAgent(state, agentId);
  const status = numberFromAgentStatus("revoked");
  const deactivatedAtMs = agent.deactivatedAtMs ?? nowMs;
  await transaction.nativeUpdate(AgentEntity, { workspaceId, agentId }, { status, deactivatedAtMs });
  const cascade = cascadeOf(state, agentId, nowMs);
  await endAuthority(scope, cascade);
  const certificate = signCertificate(
    keys,
    {
      revocation_id: createId("rev"),
      workspace_id: workspaceId,
      agent_id: agentId,
      agent_name: agent.registration.name,
      reason,
      revoked_at: new Date(nowMs).toISOString(),
      revoked_by: by,
      ledger_seq: nextSeq(),
    },
    cascade.ended,
  );
  const { revocation_id } = certificate.body;
  const certificate_digest = certificateDigest(certificate.canonicalBody);
  seal({ type: "agent_revoked", agent_id: agentId, revocation_id, reason, ended: cascade.ended, certificate_digest });
  await record(scope, command, certificate);
  await rejectPending(scope, command);
  return certificate;
}

/**
 * Revokes an agent everywhere in one transaction, and gives the signed certificate. When this resolves no replica allows
 * the agent, or anyone on its behalf, anything. Revoking again gives the first certificate. Throws INVALID_FIELD and
 * AGENT_NOT_FOUND.
 */
export async function revokeAgent(
  log: WorkspaceLog,
  keys: SigningKeys,
  command: RevokeCommand,
): Promise<StoredCertificate> {
  checkedText("reason", command.reason);
  return log.change<StoredCertificate>(command.by, async (scope) => {
    getAgent(scope.state, command.agentId);
    return (await earlier(scope, command.agentId)) ?? (await revokeNow(scope, keys, command));
  });
}
