import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import { type DecisionReceipt, receiptFrom } from "../log/receipts.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { checkedText } from "../registry/checked-text.ts";
import type { EscalationStatus } from "../state/escalations.ts";
import { escalationStatusFromNumber, numberFromEscalationStatus } from "../state/stored-enums.ts";
import { EscalationEntity } from "../store/entities.ts";
import { listEscalations, readEscalations } from "../store/sql/read-escalations.ts";
import { stored } from "../store/store-fault.ts";

/** An action that waits, or waited, for a person's approval. */
export interface Escalation {
  readonly escalationId: string;
  readonly agentId: string;
  readonly status: EscalationStatus;
  /** Log index of the decision that escalated. */
  readonly createdSeq: number;
  /** Log index of the resolution; null while pending. */
  readonly resolvedSeq: number | null;
  readonly resolvedAtMs: number | null;
  /** The key that resolved it. */
  readonly resolvedBy: string | null;
  readonly note: string | null;
  /** The decision that used up the approval. */
  readonly usedBy: string | null;
  /** The decision that escalated. */
  readonly receipt: DecisionReceipt;
}

/** An escalation's row, joined with the log entry of its decision. */
export interface EscalationRow extends Omit<Escalation, "status" | "receipt"> {
  readonly status: number;
  readonly body: string;
  readonly leafHash: Buffer;
}

/** Reads an escalation from its row. */
export function escalationFromRow({ body, leafHash, status, ...row }: EscalationRow): Escalation {
  return { ...row, status: escalationStatusFromNumber(status), receipt: receiptFrom(body, leafHash) };
}

/** A person's answer to an escalation. */
export interface EscalationResolution {
  readonly status: Exclude<EscalationStatus, "pending">;
  /** Log index of the resolution. */
  readonly seq: number;
  readonly atMs: number;
  /** The key that resolved it. */
  readonly by: string;
  readonly note: string | null;
}

/** Returns an escalation as it was right after its creation, whatever happened since. */
export function asCreated(escalation: Escalation): Escalation {
  const unresolved = { resolvedSeq: null, resolvedAtMs: null, resolvedBy: null, note: null, usedBy: null };
  return { ...escalation, ...unresolved, status: "pending" };
}

/** Returns a pending escalation as it is right after its resolution. */
export function asResolved(pending: Escalation, { status, seq, atMs, by, note }: EscalationResolution): Escalation {
  return { ...pending, status, resolvedSeq: seq, resolvedAtMs: atMs, resolvedBy: by, note };
}

/** Reads several escalations by id; unknown ids are missing in the result. */
export async function findEscalations(
  pool: Pool,
  workspaceId: string,
  escalationIds: readonly string[],
): Promise<Map<string, Escalation>> {
  const { rows } = await stored(
    pool.query<EscalationRow>({ ...readEscalations, values: [workspaceId, escalationIds] }),
  );
  return new Map(rows.map((row) => [row.escalationId, escalationFromRow(row)]));
}

/** Returns an escalation. Throws ESCALATION_NOT_FOUND, also for another agent's if `agentId` is given. */
export async function getEscalation(
  pool: Pool,
  workspaceId: string,
  escalationId: string,
  agentId: string | null,
): Promise<Escalation> {
  const found = (await findEscalations(pool, workspaceId, [escalationId])).get(escalationId);
  if (found !== undefined && (agentId === null || found.agentId === agentId)) return found;
  throw notFound(ErrorReason.ESCALATION_NOT_FOUND, "escalation", { escalation_id: escalationId });
}

/** Filter and page of a list of escalations. */
interface EscalationFilter {
  /** Number of the proto enum `EscalationStatus`; null: any. */
  readonly status: number | null;
  readonly agentId: string | null;
  /** Only escalations created before this log index; null: from the newest. */
  readonly before: number | null;
  readonly limit: number;
}

/** Lists escalations, newest first. */
export async function findEscalationPage(
  pool: Pool,
  workspaceId: string,
  filter: EscalationFilter,
): Promise<Escalation[]> {
  const { before, status, agentId, limit } = filter;
  const values = [workspaceId, before, status, agentId, limit];
  const { rows } = await stored(pool.query<EscalationRow>({ ...listEscalations, values }));
  return rows.map(escalationFromRow);
}

/** A person's request to resolve an escalation. */
interface ResolveCommand {
  readonly escalationId: string;
  readonly resolution: EscalationResolution["status"];
  readonly note: string | null;
  /** The caller's key. */
  readonly by: string;
}

/** Dependencies of `resolveEscalation`. */
interface ResolveContext {
  readonly log: WorkspaceLog;
  readonly pool: Pool;
}

/**
 * Resolves an escalation; the first resolution wins, on whichever replica it arrives. Returns the escalation as resolved.
 * Throws ESCALATION_NOT_FOUND, ESCALATION_RESOLVED, and INVALID_FIELD for a note that cannot be stored.
 */
export async function resolveEscalation({ log, pool }: ResolveContext, command: ResolveCommand): Promise<Escalation> {
  const { escalationId, resolution: status, by } = command;
  const { workspaceId } = log;
  const note = command.note === null ? null : checkedText("note", command.note);
  const pending = await getEscalation(pool, workspaceId, escalationId, null);
  if (pending.status !== "pending") throw alreadyResolved(escalationId, pending.status);
  const { agentId } = pending;
  return log.change(by, async ({ transaction, nowMs, nextSeq, seal }) => {
    const seq = nextSeq();
    const columns = {
      status: numberFromEscalationStatus(status),
      resolvedSeq: seq,
      resolvedAtMs: nowMs,
      resolvedBy: by,
    };
    const where = { workspaceId, escalationId };
    const unresolved = { ...where, resolvedSeq: null };
    if ((await transaction.nativeUpdate(EscalationEntity, unresolved, { ...columns, note })) === 0) {
      const row = await transaction.findOneOrFail(EscalationEntity, where);
      throw alreadyResolved(escalationId, escalationStatusFromNumber(row.status));
    }
    seal({ type: "escalation_resolved", escalation_id: escalationId, agent_id: agentId, resolution: status, note });
    return asResolved(pending, { status, seq, atMs: nowMs, by, note });
  });
}

function alreadyResolved(escalationId: string, status: EscalationStatus): ControlPlaneError {
  const message = `escalation \`${escalationId}\` was ${status} before; the first resolution stands`;
  return new ControlPlaneError(ErrorReason.ESCALATION_RESOLVED, message, { escalation_id: escalationId, status });
}
