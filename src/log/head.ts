import { Turns } from "../async/turns.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { loadState } from "../state/load.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import type { Database } from "../store/database.ts";
import { insertHead, readEndWithoutHead, readLeafHashes } from "../store/sql/read-vault.ts";
import type { Reader } from "../store/transaction.ts";
import { appendLeaves, bytesFromFrontier, EMPTY_FRONTIER, type Frontier, leafHash, rootText } from "../tree/merkle.ts";

/** Leaf hashes that one statement reads. */
const PAGE = 10_000;

/** Creates STORE_UNAVAILABLE for a log whose head someone deleted; the next use of the log rebuilds it. */
export function headMissing(workspaceId: string): ControlPlaneError {
  const message = `the head of the log of \`${workspaceId}\` is missing and is being rebuilt; retry`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { workspace_id: workspaceId });
}

/** Creates ENTRY_DAMAGED for an entry that is missing, or is not as the log says. */
export function entryDamaged(
  workspaceId: string,
  index: number,
  what: string,
  more: Readonly<Record<string, string>> = {},
): ControlPlaneError {
  const message = `entry ${index} of the log of \`${workspaceId}\` ${what}; verify the log with \`agentctl vault verify\``;
  const metadata = { workspace_id: workspaceId, index: String(index), ...more };
  return new ControlPlaneError(ErrorReason.ENTRY_DAMAGED, message, metadata);
}

/**
 * Loads the state of a workspace. Rebuilds the head of its log first if someone deleted it, and logs that. Rejects with
 * WORKSPACE_NOT_FOUND, and with ENTRY_DAMAGED for a log without head whose entries do not fit together.
 */
export async function openState(
  { pool, log }: Pick<Database, "pool" | "log">,
  workspaceId: string,
): Promise<WorkspaceState> {
  try {
    return await loadState(pool, workspaceId);
  } catch (error) {
    const isMissing = error instanceof ControlPlaneError && error.reason === ErrorReason.WORKSPACE_NOT_FOUND;
    const end = isMissing ? await rebuildHead(pool, workspaceId) : undefined;
    if (end === undefined) throw error;
    const details = { workspaceId, entries: end.size, root: rootText(end) };
    log.warn(details, "the head of a log was missing and is rebuilt from its entries");
    return loadState(pool, workspaceId);
  }
}

/** Stores the head of a log that has none. Returns its frontier; undefined for an unknown workspace, or where the head exists. */
async function rebuildHead(reader: Reader, workspaceId: string): Promise<Frontier | undefined> {
  type Row = { seq: number | null; atMs: number; leafHash: Buffer; body: string };
  const { rows } = await reader.query<Row>({ ...readEndWithoutHead, values: [workspaceId] });
  const [end] = rows;
  if (end === undefined) return undefined;
  if (end.seq === null) throw entryDamaged(workspaceId, 0, "is missing, with all others");
  if (!leafHash(end.body).equals(end.leafHash)) throw entryDamaged(workspaceId, end.seq, "does not hash to its leaf");
  // The last entry says what was sealed before it, so that a log that was rewritten is not taken for the whole one.
  const sealed = JSON.parse(end.body) as { readonly previous_root: string; readonly previous_size: number };
  const before = await extended(reader, workspaceId, EMPTY_FRONTIER, sealed.previous_size);
  if (rootText(before) !== sealed.previous_root) {
    throw entryDamaged(workspaceId, end.seq, "names another root than the entries before it have");
  }
  const frontier = await extended(reader, workspaceId, before, end.seq + 1);
  // Another process may have been first: its head stays.
  await reader.query({ ...insertHead, values: [workspaceId, frontier.size, bytesFromFrontier(frontier), end.atMs] });
  return frontier;
}

/** Appends the stored leaves up to a size to a frontier. */
async function extended(reader: Reader, workspaceId: string, from: Frontier, size: number): Promise<Frontier> {
  const turns = new Turns();
  let frontier = from;
  while (frontier.size < size) {
    type Row = { seq: number; leafHash: Buffer };
    const values = [workspaceId, frontier.size, Math.min(size, frontier.size + PAGE)];
    const { rows } = await reader.query<Row>({ ...readLeafHashes, values });
    const gap = rows.findIndex(({ seq }, index) => seq !== frontier.size + index);
    if (gap >= 0 || rows.length === 0) throw entryDamaged(workspaceId, frontier.size + Math.max(gap, 0), "is missing");
    frontier = appendLeaves(
      frontier,
      rows.map((row) => row.leafHash),
    );
    await turns.giveWay();
  }
  return frontier;
}
