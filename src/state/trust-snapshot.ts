import type { Pool, PoolClient } from "pg";
import { lockTrust, saveTrust, saveUses, setTrustSeq } from "../store/sql/save-trust.ts";
import type { WorkspaceState } from "./workspace.ts";

/** A value with the size of the log after the entry that last changed it. */
export interface ChangedValue {
  readonly value: number;
  readonly changedAt: number;
}

/** The values that changed, as of a size of the log. */
export interface TrustSnapshot {
  readonly workspaceId: string;
  readonly seq: number;
  /** Time of the last entry, epoch milliseconds. */
  readonly lastAtMs: number;
  /** Trust in tenths, by agent. */
  readonly trust: ReadonlyMap<string, ChangedValue>;
  /** Actions allowed under a piece of authority, by its id. */
  readonly uses: ReadonlyMap<string, ChangedValue>;
}

/** Takes a snapshot of the values that changed since the last stored snapshot that the state knows of. */
export function snapshotOf(state: WorkspaceState): TrustSnapshot {
  const valuesOf = (changedAt: ReadonlyMap<string, number>, currentValue: (id: string) => number | undefined) =>
    new Map([...changedAt].map(([id, at]) => [id, { value: currentValue(id) ?? 0, changedAt: at }]));
  return {
    workspaceId: state.workspaceId,
    seq: state.seq,
    lastAtMs: state.lastAtMs,
    trust: valuesOf(state.trustChangedAt, (id) => state.agents.get(id)?.trustTenths),
    // The transaction that ends authority stores its last uses.
    uses: valuesOf(
      new Map([...state.usesChangedAt].filter(([id]) => state.authority.get(id) !== undefined)),
      (id) => state.authority.get(id)?.uses,
    ),
  };
}

/** Forgets the changes that a stored snapshot contains. */
export function forgetSaved({ trustChangedAt, usesChangedAt }: WorkspaceState, savedSeq: number): void {
  for (const changedAt of [trustChangedAt, usesChangedAt])
    for (const [id, at] of changedAt) if (at <= savedSeq) changedAt.delete(id);
}

function changedSince(all: ReadonlyMap<string, ChangedValue>, before: number): [ids: string[], values: number[]] {
  const changed = [...all].filter(([, { changedAt }]) => changedAt > before);
  return [changed.map(([id]) => id), changed.map(([, { value }]) => value)];
}

async function write(client: PoolClient, snapshot: TrustSnapshot): Promise<number> {
  const { workspaceId, seq } = snapshot;
  const { rows } = await client.query<{ seq: number }>({ ...lockTrust, values: [workspaceId] });
  const before = rows[0]?.seq ?? 0;
  // Another replica stored a newer snapshot.
  if (before >= seq) return before;
  await client.query({ ...saveTrust, values: [workspaceId, ...changedSince(snapshot.trust, before)] });
  if (snapshot.uses.size > 0)
    await client.query({ ...saveUses, values: [workspaceId, ...changedSince(snapshot.uses, before)] });
  await client.query({ ...setTrustSeq, values: [workspaceId, seq] });
  return seq;
}

/**
 * Stores a snapshot unless a newer one is stored. Returns the size of the log that the stored snapshot reflects. The snapshot
 * MUST contain every value that changed since any earlier snapshot that may be stored.
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
