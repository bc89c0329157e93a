import type { EntityManager } from "@mikro-orm/postgresql";
import type { Pool, PoolClient, QueryConfig, QueryResultRow } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { stored } from "./database.ts";
import { lockHead } from "./sql/read-entries.ts";

/** The ORM's entity manager inside one transaction. Its writes are durable when the transaction commits. */
export type Transaction = EntityManager;

/** Runs queries: a pool, one of its connections, or a transaction. */
export interface Reader {
  query<R extends QueryResultRow>(config: QueryConfig): Promise<{ readonly rows: R[] }>;
}

/**
 * Returns a reader over the transaction's own connection. Taking a second connection from the pool while holding one could
 * deadlock with others that do the same. Statements MUST NOT contain a question mark, the ORM's parameter sign.
 */
export function readerWithin(transaction: Transaction): Reader {
  return {
    async query<R extends QueryResultRow>({ text, values = [] }: QueryConfig) {
      // The ORM has positional parameters only.
      const inOrder: unknown[] = [];
      const sql = text.replace(/\$(\d+)/g, (_, number) => {
        inOrder.push(values[Number(number) - 1]);
        return "?";
      });
      return { rows: (await transaction.execute(sql, inOrder)) as R[] };
    },
  };
}

/** Runs `read` in a READ ONLY transaction, in which it sees one snapshot of the database. */
export async function readSnapshot<T>(pool: Pool, read: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const result = await read(client);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}

/** SQLSTATE of a statement that took longer than it may. */
const QUERY_CANCELED = "57014";

/**
 * Runs `read` as `readSnapshot` does, with a limit for the time of each statement. Rejects with OVERLOADED and `message` if PostgreSQL
 * takes longer, and with STORE_UNAVAILABLE.
 */
export async function readWithin<T>(
  pool: Pool,
  { statementMs, message }: { readonly statementMs: number; readonly message: string },
  read: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const reading = readSnapshot(pool, async (client) => {
    await client.query(`set local statement_timeout = ${statementMs}`);
    return read(client);
  });
  return stored(
    reading.catch((cause: unknown) => {
      if ((cause as { code?: unknown } | null)?.code !== QUERY_CANCELED) throw cause;
      throw new ControlPlaneError(ErrorReason.OVERLOADED, message, {}, { cause });
    }),
  );
}

/** Reads the database in READ ONLY transactions, in which PostgreSQL refuses every write. It has no method that writes. */
export class ReadOnlyDatabase implements Reader {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  query<R extends QueryResultRow>(config: QueryConfig): Promise<{ readonly rows: R[] }> {
    return this.snapshot((reader) => reader.query<R>(config));
  }

  /** Runs `read` on one snapshot of the database. */
  snapshot<T>(read: (reader: Reader) => Promise<T>): Promise<T> {
    return readSnapshot(this.#pool, read);
  }
}

/** Locks the end of a workspace's log until the transaction ends. Returns the log's size; undefined without a head. */
export async function lockLogEnd(transaction: Transaction, workspaceId: string): Promise<number | undefined> {
  const { rows } = await readerWithin(transaction).query<{ seq: number }>({ ...lockHead, values: [workspaceId] });
  return rows[0]?.seq;
}

/** An entry that records a change, with the roots of the perfect subtrees that its leaf completes. */
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

// One statement, because callers of a change wait for every round trip of its transaction.
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

/** Writes entries, the new end of the log, and the notification. The caller MUST hold the lock of `lockLogEnd`. */
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
