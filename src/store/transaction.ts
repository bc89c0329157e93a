import type { EntityManager } from "@mikro-orm/postgresql";
import { LedgerEntryEntity, type LedgerEntryRow, LedgerHeadEntity } from "./entities.ts";

/** The ORM's entity manager inside one transaction; what it writes is durable when the transaction commits. */
export type Transaction = EntityManager;

/** Locks the end of a workspace's log until the transaction ends, and gives its size; undefined without such a workspace. */
export async function lockLogEnd(transaction: Transaction, workspaceId: string): Promise<number | undefined> {
  const sql = "select seq::float8 as seq from ledger_head where workspace_id = ? for update";
  const rows = (await transaction.execute(sql, [workspaceId])) as { seq: number }[];
  return rows[0]?.seq;
}

/** The new end of a log. */
export interface LogEnd {
  readonly seq: number;
  readonly frontier: Buffer;
  readonly lastAtMs: number;
}

/** Writes entries and the end of the log after them. The caller MUST hold the lock of `lockLogEnd`. */
export async function writeEntries(
  transaction: Transaction,
  workspaceId: string,
  entries: readonly LedgerEntryRow[],
  end: LogEnd,
): Promise<void> {
  await transaction.insertMany(LedgerEntryEntity, [...entries]);
  await transaction.nativeUpdate(LedgerHeadEntity, { workspaceId }, end);
}

/** Wakes other processes when the transaction commits. */
export async function notifyOnCommit(transaction: Transaction, channel: string, payload: string): Promise<void> {
  await transaction.execute("select pg_notify(?, ?)", [channel, payload]);
}
