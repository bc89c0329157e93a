import type { SigningKeys } from "../authority/signing-key.ts";
import type { ChangeScope } from "../log/changes.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { getAgent } from "../registry/agents.ts";
import { checkedText } from "../registry/checked-text.ts";
import { endKeysOfAgent } from "../registry/keys.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { AGENT_STATUS_NUMBERS, ESCALATION_STATUS_NUMBERS } from "../state/types.ts";
import { AgentEntity, IncidentEntity, RevocationEntity } from "../store/entities.ts";
import { createId } from "../store/ids.ts";
import { stepCallsLiteral } from "../store/sql/save-trust.ts";
import { type Certificate, certificateDigest, type StoredCertificate, signCertificate } from "./certificate.ts";
import { endedBy, planRevocation, type RevocationPlan } from "./plan.ts";
import { certificateFromRow } from "./revocations.ts";

/** A request to revoke an agent. */
interface RevokeCommand {
  readonly agentId: string;
  /** May be empty. */
  readonly reason: string;
  /** The caller's key. */
  readonly by: string;
}

const AGENT_REVOKED = 1;

/** Ends authority in its table, and stores the uses counted in the state. */
const END_AUTHORITY = `update authority a set ended_at_ms = ?, uses = e.uses, step_calls = e.step_calls::integer[]
  from unnest(?::text[], ?::bigint[], ?::text[]) as e (id, uses, step_calls)
  where a.workspace_id = ? and a.id = e.id and a.ended_at_ms is null`;

async function endAuthority(
  { transaction, state, nowMs }: ChangeScope,
  items: readonly AuthorityItem[],
): Promise<void> {
  if (items.length === 0) return;
  // PostgreSQL's array literals; ids need no quoting.
  const ids = `{${items.map(({ sealed }) => sealed.id).join(",")}}`;
  const uses = `{${items.map((item) => item.uses).join(",")}}`;
  const literals = items.map(({ stepCalls }) => stepCallsLiteral(stepCalls));
  const stepCalls = `{${literals.map((literal) => (literal === null ? "null" : `"${literal}"`)).join(",")}}`;
  await transaction.execute(END_AUTHORITY, [nowMs, ids, uses, stepCalls, state.workspaceId]);
}

/** Rejects the agent's pending escalations, so that every waiting call ends. */
function rejectPending(scope: ChangeScope, { agentId, by }: RevokeCommand, pending: RevocationPlan["pending"]): void {
  const { transaction, nowMs, nextSeq, seal } = scope;
  for (const escalation of pending) {
    // An expired escalation ended by its expiry, whoever seals it.
    const isExpired = escalation.expiresAtMs <= nowMs;
    const end = isExpired ? { note: null, cause: "expiry" as const } : { note: "the agent was revoked" };
    const { escalationId } = escalation;
    const resolved = { resolvedSeq: nextSeq(), resolvedAtMs: nowMs, resolvedBy: end.cause ?? by, note: end.note };
    transaction.assign(escalation, { ...resolved, status: ESCALATION_STATUS_NUMBERS.rejected });
    const names = { escalation_id: escalationId, agent_id: agentId };
    seal({ type: "escalation_resolved", ...names, resolution: "rejected", asked: escalation.asked, ...end });
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

/** Returns the certificate of an agent that was revoked before. */
async function earlierCertificate(
  { transaction, state }: ChangeScope,
  agentId: string,
): Promise<StoredCertificate | undefined> {
  const row = await transaction.findOne(RevocationEntity, { workspaceId: state.workspaceId, agentId });
  return row === null ? undefined : certificateFromRow(row);
}

/** Revokes in the order of the specification: the registration, all authority, the certificate, pending escalations. */
async function revokeNow(scope: ChangeScope, keys: SigningKeys, command: RevokeCommand): Promise<Certificate> {
  const { transaction, state, nowMs, nextSeq, seal } = scope;
  const { agentId, reason, by } = command;
  const { workspaceId } = state;
  const agent = getAgent(state, agentId);
  const status = AGENT_STATUS_NUMBERS.revoked;
  const deactivatedAtMs = agent.deactivatedAtMs ?? nowMs;
  await transaction.nativeUpdate(AgentEntity, { workspaceId, agentId }, { status, deactivatedAtMs });
  const plan = await planRevocation(transaction, state, agentId, nowMs);
  await endAuthority(scope, Object.values(plan.items).flat());
  await endKeysOfAgent(scope, agentId);
  const ended = endedBy(plan);
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
    ended,
  );
  const { revocation_id } = certificate.body;
  const certificate_digest = certificateDigest(certificate.canonicalBody);
  seal({ type: "agent_revoked", agent_id: agentId, revocation_id, reason, ended, certificate_digest });
  await record(scope, command, certificate);
  rejectPending(scope, command, plan.pending);
  return certificate;
}

/**
 * Revokes an agent everywhere in one transaction, and returns the signed certificate. When this resolves, no replica
 * allows anything to the agent or on its behalf. Revoking again returns the first certificate. Throws INVALID_FIELD and
 * AGENT_NOT_FOUND.
 */
export async function revokeAgent(
  log: WorkspaceLog,
  keys: SigningKeys,
  command: RevokeCommand,
): Promise<StoredCertificate> {
  checkedText("reason", command.reason);
  await keys.sealIn(log);
  return log.change<StoredCertificate>(command.by, async (scope) => {
    getAgent(scope.state, command.agentId);
    keys.assertMaySign(scope.state);
    return (await earlierCertificate(scope, command.agentId)) ?? (await revokeNow(scope, keys, command));
  });
}
