import type { Pool, PoolClient } from "pg";
import { lockTrust, saveTrust, saveUses, setTrustSeq, stepCallsLiteral } from "../store/sql/save-trust.ts";
import type { WorkspaceState } from "./workspace.ts";

/** A value with the size of the log after the entry that last changed it. */
export interface Changed<Value> {
  readonly value: Value;
  readonly changedAt: number;
}

/** Actions allowed under a piece of authority: all of them, and the calls of each step of its plan. */
interface Uses {
  readonly all: number;
  readonly ofSteps: readonly number[];
}

/** The values that changed, as of a size of the log. */
export interface TrustSnapshot {
  readonly workspaceId: string;
  readonly seq: number;
  /** Time of the last entry, epoch milliseconds. */
  readonly lastAtMs: number;
  /** Trust in tenths, by agent. */
  readonly trust: ReadonlyMap<string, Changed<number>>;
  /** Uses of authority, by its id. */
  readonly uses: ReadonlyMap<string, Changed<Uses>>;
}

/** Takes a snapshot of the values that changed since the last stored snapshot that the state knows of. */
export function snapshotOf(state: WorkspaceState): TrustSnapshot {
  const { agents, authority } = state;
  const uses = new Map<string, Changed<Uses>>();
  for (const [id, changedAt] of state.usesChangedAt) {
    const item = authority.get(id);
    // The transaction that ends authority stores its last uses.
    if (item !== undefined) uses.set(id, { value: { all: item.uses, ofSteps: [...item.stepCalls] }, changedAt });
  }
  return {
    workspaceId: state.workspaceId,
    seq: state.seq,
    lastAtMs: state.lastAtMs,
    trust: new Map(
      [...state.trustChangedAt].map(([id, changedAt]) => [id, { value: agents.get(id)?.trustTenths ?? 0, changedAt }]),
    ),
    uses,
  };
}

/** Forgets the changes that a stored snapshot contains. */
export function forgetSaved({ trustChangedAt, usesChangedAt }: WorkspaceState, savedSeq: number): void {
  for (const changedAt of [trustChangedAt, usesChangedAt])
    for (const [id, at] of changedAt) if (at <= savedSeq) changedAt.delete(id);
}

function changedSince<Value>(
  all: ReadonlyMap<string, Changed<Value>>,
  before: number,
): { readonly ids: string[]; readonly values: Value[] } {
  const changed = [...all].filter(([, { changedAt }]) => changedAt > before);
  return { ids: changed.map(([id]) => id), values: changed.map(([, { value }]) => value) };
}

async function write(client: PoolClient, snapshot: TrustSnapshot): Promise<number> {
  const { workspaceId, seq } = snapshot;
  const { rows } = await client.query<{ seq: number }>({ ...lockTrust, values: [workspaceId] });
  const before = rows[0]?.seq ?? 0;
  // Another replica stored a newer snapshot.
  if (before >= seq) return before;
  const trust = changedSince(snapshot.trust, before);
  await client.query({ ...saveTrust, values: [workspaceId, trust.ids, trust.values] });
  if (snapshot.uses.size > 0) {
    const { ids, values } = changedSince(snapshot.uses, before);
    const counts = [values.map(({ all }) => all), values.map(({ ofSteps }) => stepCallsLiteral(ofSteps))];
    await client.query({ ...saveUses, values: [workspaceId, ids, ...counts] });
  }
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
