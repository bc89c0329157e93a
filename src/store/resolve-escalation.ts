import type { Transaction } from "./transaction.ts";

/** A resolution as its columns hold it; `status` is the number of `EscalationStatus`. */
export interface ResolutionColumns {
  readonly status: number;
  readonly resolvedSeq: number;
  readonly resolvedAtMs: number;
  readonly resolvedBy: string;
  readonly note: string | null;
}

const RESOLVE = `
  update escalation set status = ?, resolved_seq = ?, resolved_at_ms = ?, resolved_by = ?, note = ?
  where workspace_id = ? and escalation_id = ? and resolved_seq is null
  returning agent_id as "agentId"`;

/** Resolves an escalation that is pending and gives its agent; undefined, and nothing written, when there is none such. */
export async function resolvePending(
  transaction: Transaction,
  workspaceId: string,
  escalationId: string,
  { status, resolvedSeq, resolvedAtMs, resolvedBy, note }: ResolutionColumns,
): Promise<string | undefined> {
  const columns = [status, resolvedSeq, resolvedAtMs, resolvedBy, note];
  const rows = await transaction.execute<{ agentId: string }[]>(RESOLVE, [...columns, workspaceId, escalationId]);
  return rows[0]?.agentId;
}
