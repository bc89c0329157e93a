import type { Pool, PoolClient } from "pg";
import { lockTrust, saveTrust, setTrustSeq } from "../store/sql/save-trust.ts";

/** The trust of the agents that changed, as it is true of a size of the log. */
export interface TrustSnapshot {
  readonly workspaceId: string;
  readonly seq: number;
  /** By agent: trust in tenths and the size of the log after the entry that changed it. */
  readonly changed: ReadonlyMap<string, { readonly tenths: number; readonly changedAt: number }>;
}

async function write(client: PoolClient, snapshot: TrustSnapshot): Promise<number> {
  const { workspaceId, seq, changed } = snapshot;
  const { rows } = await client.query<{ seq: number }>({ ...lockTrust, values: [workspaceId] });
  const before = rows[0]?.seq ?? 0;
  // Another replica's snapshot is newer; what it holds need not be written again.
  if (before >= seq) return before;
  const fresh = [...changed].filter(([, { changedAt }]) => changedAt > before);
  const tenths = fresh.map(([, trust]) => trust.tenths);
  await client.query({ ...saveTrust, values: [workspaceId, fresh.map(([agentId]) => agentId), tenths] });
  await client.query({ ...setTrustSeq, values: [workspaceId, seq] });
  return seq;
}

/**
 * Moves the trust snapshot of a workspace forward, never back, and gives the size of the log that it is now true of.
 * `changed` MUST hold every agent that changed since any earlier snapshot that may be stored.
 */
export async function saveTrustSnapshot(pool: Pool, snapshot: TrustSnapshot): Promise<number> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const seq = await write(client, snapshot);
    await client.query("commit");
    return seq;
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
