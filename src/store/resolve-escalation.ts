import { ESCALATION_COLUMNS } from "./sql/read-escalations.ts";
import type { Transaction } from "./transaction.ts";

/** A resolution as its columns hold it; `status` is the number of `EscalationStatus`. */
export interface ResolutionColumns {
  readonly status: number;
  readonly resolvedSeq: number;
  readonly resolvedAtMs: number;
  readonly resolvedBy: string;
  readonly note: string | null;
}

// It gives what a read afterwards would: who resolves waits for every round trip.
const RESOLVE = `
  update escalation e set status = ?, resolved_seq = ?, resolved_at_ms = ?, resolved_by = ?, note = ?
  from ledger_entry l
  where e.workspace_id = ? and e.escalation_id = ? and e.resolved_seq is null
    and l.workspace_id = e.workspace_id and l.seq = e.created_seq
  returning ${ESCALATION_COLUMNS}`;

/**
 * Resolves an escalation that is pending and gives it as it is then, with the entry of its decision; undefined, and
 * nothing written, when there is none such.
 */
export async function resolvePending<Row>(
  transaction: Transaction,
  workspaceId: string,
  escalationId: string,
  { status, resolvedSeq, resolvedAtMs, resolvedBy, note }: ResolutionColumns,
): Promise<Row | undefined> {
  const columns = [status, resolvedSeq, resolvedAtMs, resolvedBy, note];
  const rows = await transaction.execute<Row[]>(RESOLVE, [...columns, workspaceId, escalationId]);
  return rows[0];
}
