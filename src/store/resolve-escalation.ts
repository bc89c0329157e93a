import type { Pool } from "pg";
import { resolveAtOnce } from "./sql/resolve-escalation.ts";
import type { AppendedChanges } from "./transaction.ts";

/** A resolution as its columns hold it; `status` is the number of `EscalationStatus`. */
export interface ResolutionColumns {
  readonly escalationId: string;
  readonly status: number;
  readonly resolvedBy: string;
  readonly note: string | null;
}

/**
 * Resolves an escalation that is pending and appends the one entry of it, over one round trip. False, and nothing written,
 * when there is none such or the log goes on after the end that the entry was made for.
 */
export async function resolveAndAppend(
  pool: Pool,
  { workspaceId, entries, before, end, notification }: AppendedChanges,
  { escalationId, status, resolvedBy, note }: ResolutionColumns,
): Promise<boolean> {
  const [entry] = entries;
  if (entry === undefined || entries.length > 1)
    throw new RangeError(`a resolution is one entry, not ${entries.length}`);
  const { entryId, agentId, leafHash, subtrees, body } = entry;
  const subtreeHashes = subtrees.length === 0 ? null : Buffer.concat(subtrees);
  const place = [workspaceId, before.seq, before.frontier, end.frontier, end.lastAtMs];
  const sealed = [entryId, agentId, leafHash, subtreeHashes, body];
  const resolution = [escalationId, status, resolvedBy, note];
  const values = [...place, ...sealed, ...resolution, notification.channel, notification.payload];
  const { rowCount } = await pool.query({ ...resolveAtOnce, values });
  return rowCount === 1;
}
