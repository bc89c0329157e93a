import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type DecisionReceipt, receiptFrom } from "../log/receipts.ts";
import type { EscalationStatus } from "../state/escalations.ts";
import { escalationStatusFromNumber } from "../state/stored-enums.ts";
import { listEscalations, readEscalations } from "../store/sql/read-escalations.ts";
import { stored } from "../store/store-fault.ts";

/** An action that waits, or waited, for a human. */
export interface Escalation {
  readonly escalationId: string;
  readonly agentId: string;
  readonly status: EscalationStatus;
  /** Index of the decision that escalated. */
  readonly createdSeq: number;
  /** Index of the resolution; null while pending. */
  readonly resolvedSeq: number | null;
  readonly resolvedAtMs: number | null;
  /** The key that resolved it. */
  readonly resolvedBy: string | null;
  readonly note: string | null;
  /** The decision that used the approval up. */
  readonly usedBy: string | null;
  /** The decision that escalated. */
  readonly receipt: DecisionReceipt;
}

/** An escalation's row with the entry of its decision. */
export interface EscalationRow extends Omit<Escalation, "status" | "receipt"> {
  readonly status: number;
  readonly body: string;
  readonly leafHash: Buffer;
}

/** An escalation from its row. */
export function escalationFromRow({ body, leafHash, status, ...row }: EscalationRow): Escalation {
  return { ...row, status: escalationStatusFromNumber(status), receipt: receiptFrom(body, leafHash) };
}

/** How an escalation was resolved. */
export interface EscalationResolution {
  readonly status: Exclude<EscalationStatus, "pending">;
  /** Index of the entry that resolved it. */
  readonly seq: number;
  readonly atMs: number;
  /** The key that resolved it. */
  readonly by: string;
  readonly note: string | null;
}

/** A pending escalation as a resolution left it: nothing has used the approval up yet. */
export function asResolved(pending: Escalation, { status, seq, atMs, by, note }: EscalationResolution): Escalation {
  return { ...pending, status, resolvedSeq: seq, resolvedAtMs: atMs, resolvedBy: by, note };
}

/** The error for an id that the workspace, or the key's agent, has no escalation of. */
export function escalationNotFound(escalationId: string): ControlPlaneError {
  const message = `no escalation \`${escalationId}\``;
  return new ControlPlaneError(ErrorReason.ESCALATION_NOT_FOUND, message, { escalation_id: escalationId });
}

/** Reads some escalations; ids that do not exist are left out. */
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

/** Reads one escalation. Throws ESCALATION_NOT_FOUND, also for another agent's when `agentId` is given. */
export async function getEscalation(
  pool: Pool,
  workspaceId: string,
  escalationId: string,
  agentId: string | null,
): Promise<Escalation> {
  const found = (await findEscalations(pool, workspaceId, [escalationId])).get(escalationId);
  if (found === undefined || (agentId !== null && found.agentId !== agentId)) throw escalationNotFound(escalationId);
  return found;
}

/** What a list of escalations is narrowed to. */
export interface EscalationFilter {
  /** Number of the proto enum `EscalationStatus`; null: any. */
  readonly status: number | null;
  readonly agentId: string | null;
  /** Only escalations created before this index; null: from the newest. */
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
