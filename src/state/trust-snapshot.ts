import type { Pool, PoolClient } from "pg";
import { lockTrust, saveTrust, saveUses, setTrustSeq } from "../store/sql/save-trust.ts";
import type { WorkspaceState } from "./workspace.ts";

/** A figure with the size of the log after the entry that changed it. */
export interface ChangedFigure {
  readonly value: number;
  readonly changedAt: number;
}

/** The figures that changed, as they are true of a size of the log. */
export interface TrustSnapshot {
  readonly workspaceId: string;
  readonly seq: number;
  /** Time of the last entry, epoch milliseconds. */
  readonly lastAtMs: number;
  /** Trust in tenths, by agent. */
  readonly trust: ReadonlyMap<string, ChangedFigure>;
  /** Actions allowed under a piece of authority, by its id. */
  readonly uses: ReadonlyMap<string, ChangedFigure>;
}

/** The figures of a state that changed since the last snapshot that it knows of. */
export function snapshotOf(state: WorkspaceState): TrustSnapshot {
  const figures = (changedAt: ReadonlyMap<string, number>, figureOf: (id: string) => number | undefined) =>
    new Map([...changedAt].map(([id, at]) => [id, { value: figureOf(id) ?? 0, changedAt: at }]));
  return {
    workspaceId: state.workspaceId,
    seq: state.seq,
    lastAtMs: state.lastAtMs,
    trust: figures(state.trustChangedAt, (id) => state.agents.get(id)?.trustTenths),
    // What ended meanwhile has its figure from the transaction that ended it.
    uses: figures(
      new Map([...state.usesChangedAt].filter(([id]) => state.authority.get(id) !== undefined)),
      (id) => state.authority.get(id)?.uses,
    ),
  };
}

/** Forgets which figures changed before a snapshot that is stored. */
export function forgetSaved({ trustChangedAt, usesChangedAt }: WorkspaceState, savedSeq: number): void {
  for (const changedAt of [trustChangedAt, usesChangedAt])
    for (const [id, at] of changedAt) if (at <= savedSeq) changedAt.delete(id);
}

function freshSince(figures: ReadonlyMap<string, ChangedFigure>, before: number): [ids: string[], values: number[]] {
  const fresh = [...figures].filter(([, { changedAt }]) => changedAt > before);
  return [fresh.map(([id]) => id), fresh.map(([, { value }]) => value)];
}

async function write(client: PoolClient, snapshot: TrustSnapshot): Promise<number> {
  const { workspaceId, seq } = snapshot;
  const { rows } = await client.query<{ seq: number }>({ ...lockTrust, values: [workspaceId] });
  const before = rows[0]?.seq ?? 0;
  // Another replica's snapshot is newer; what it holds need not be written again.
  if (before >= seq) return before;
  await client.query({ ...saveTrust, values: [workspaceId, ...freshSince(snapshot.trust, before)] });
  if (snapshot.uses.size > 0)
    await client.query({ ...saveUses, values: [workspaceId, ...freshSince(snapshot.uses, before)] });
  await client.query({ ...setTrustSeq, values: [workspaceId, seq] });
  return seq;
}

/**
 * Moves the trust snapshot of a workspace forward, never back, and gives the size of the log that it is now true of.
 * The snapshot MUST hold every figure that changed since any earlier snapshot that may be stored.
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
