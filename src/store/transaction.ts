import type { EntityManager } from "@mikro-orm/postgresql";
import type { QueryConfig, QueryResultRow } from "pg";

/** The ORM's entity manager inside one transaction; what it writes is durable when the transaction commits. */
export type Transaction = EntityManager;

/** What reads: a pool, one of its connections, or a transaction. */
export interface Reader {
  query<R extends QueryResultRow>(config: QueryConfig): Promise<{ readonly rows: R[] }>;
}

/**
 * Reads over the connection of a transaction: one that waited for another could wait for others that do the same.
 * Statements MUST hold no question mark, which is a parameter to the ORM.
 */
export function readerWithin(transaction: Transaction): Reader {
  return {
    async query<R extends QueryResultRow>({ text, values = [] }: QueryConfig) {
      // The ORM knows parameters by their order alone.
      const inOrder: unknown[] = [];
      const sql = text.replace(/\$(\d+)/g, (_, number) => {
        inOrder.push(values[Number(number) - 1]);
        return "?";
      });
      return { rows: (await transaction.execute(sql, inOrder)) as R[] };
    },
  };
}

/** Locks the end of a workspace's log until the transaction ends, and gives its size; undefined without such a workspace. */
export async function lockLogEnd(transaction: Transaction, workspaceId: string): Promise<number | undefined> {
  const sql = "select seq::float8 as seq from ledger_head where workspace_id = ? for update";
  const rows = (await transaction.execute(sql, [workspaceId])) as { seq: number }[];
  return rows[0]?.seq;
}

/** An entry that records a change, and the roots of the perfect subtrees that its leaf completes. */
export interface ChangeEntry {
  readonly seq: number;
  readonly entryId: string;
  readonly agentId: string | null;
  readonly leafHash: Buffer;
  readonly subtrees: readonly Uint8Array[];
  readonly body: string;
}

/** Entries that record changes, the end of the log after them, and the notification of other processes. */
export interface AppendedChanges {
  readonly workspaceId: string;
  readonly entries: readonly ChangeEntry[];
  readonly end: { readonly seq: number; readonly frontier: Buffer; readonly lastAtMs: number };
  readonly notification: { readonly channel: string; readonly payload: string };
}

// One statement: whoever waits for a change waits for every round trip of its transaction.
const APPEND = `
  with entry as (
    select * from json_to_recordset(?::json)
      as e (seq bigint, entry_id text, agent_id text, leaf_hash text, subtree_hashes text, body text)
  ), written as (
    insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, leaf_hash, subtree_hashes, body)
    select ?, seq, ?, 1, entry_id, agent_id, decode(leaf_hash, 'hex'), decode(subtree_hashes, 'hex'), body from entry
  ), head as (
    update ledger_head set seq = ?, frontier = decode(?, 'hex'), last_at_ms = ? where workspace_id = ?
  )
  select pg_notify(?, ?)`;

/** Writes entries, the end of the log after them, and what tells of them. The caller MUST hold the lock of `lockLogEnd`. */
export async function appendChanges(transaction: Transaction, changes: AppendedChanges): Promise<void> {
  const { workspaceId, entries, end, notification } = changes;
  const rows = entries.map(({ seq, entryId, agentId, leafHash, subtrees, body }) => ({
    seq,
    entry_id: entryId,
    agent_id: agentId,
    leaf_hash: leafHash.toString("hex"),
    subtree_hashes: subtrees.length === 0 ? null : Buffer.concat(subtrees).toString("hex"),
    body,
  }));
  const { seq, frontier, lastAtMs } = end;
  const head = [seq, frontier.toString("hex"), lastAtMs, workspaceId];
  const { channel, payload } = notification;
  await transaction.execute(APPEND, [JSON.stringify(rows), workspaceId, lastAtMs, ...head, channel, payload]);
}
