import { createId } from "../store/ids.ts";
import { appendChanges, type ChangeEntry, type Transaction } from "../store/transaction.ts";
import { canonicalJson } from "./canonical.ts";
import { type ControlChange, controlEntryFrom } from "./control-entry.ts";
import { wakeUpPayload } from "./decided-batch.ts";
import type { ChangeEvent } from "./events.ts";
import { appendLeaves, bytesFromFrontier, type Frontier, leafHash, rootOf } from "./merkle.ts";

/** The channel that tells replicas of new entries. */
export const WAKE_UP_CHANNEL = "acp_log";

/** The end of a log that changes are appended to. */
export interface ChangePlace {
  readonly workspaceId: string;
  readonly seq: number;
  readonly frontier: Frontier;
  readonly atMs: number;
  /** The key that makes the changes. */
  readonly by: string;
}

/** Changes as they were written, and the frontier after them. */
export interface SealedChanges {
  readonly events: readonly ChangeEvent[];
  readonly frontier: Frontier;
}

const agentOf = (change: ControlChange): string | null => ("agent_id" in change ? change.agent_id : null);

/** Appends changes to the log inside the transaction that makes them. The caller MUST hold the lock on the log's end. */
export async function sealChanges(
  transaction: Transaction,
  place: ChangePlace,
  changes: readonly ControlChange[],
): Promise<SealedChanges> {
  const { workspaceId, atMs, by } = place;
  const previousRoot = Buffer.from(rootOf(place.frontier)).toString("base64");
  let { frontier } = place;
  const entries = changes.map((change, index): ChangeEntry => {
    const seq = place.seq + index;
    const body = canonicalJson(
      controlEntryFrom(change, { workspaceId, seq, atMs, by, previousRoot, previousSize: place.seq }),
    );
    const leaf = leafHash(body);
    const subtrees: Uint8Array[] = [];
    frontier = appendLeaves(frontier, [leaf], subtrees);
    return { seq, entryId: createId("ent"), agentId: agentOf(change), leafHash: leaf, subtrees, body };
  });
  const seq = place.seq + entries.length;
  const end = { seq, frontier: bytesFromFrontier(frontier), lastAtMs: atMs };
  const payload = wakeUpPayload({ workspaceId, seq, isChange: true });
  await appendChanges(transaction, workspaceId, entries, end, { channel: WAKE_UP_CHANNEL, payload });
  const events = changes.map((change, index) => ({
    kind: "change" as const,
    seq: place.seq + index,
    atMs,
    by,
    change,
  }));
  return { events, frontier };
}
