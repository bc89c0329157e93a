import type { Pool, PoolClient } from "pg";
import { readEntriesFrom } from "../store/sql/read-entries.ts";
import type { ControlChange } from "./control-entry.ts";
import type { LedgerEvent, LedgerListener } from "./events.ts";
import { appendLeaves, HASH_BYTES } from "./merkle.ts";
import { decisionFromNumber } from "./words.ts";
import { foldChange, foldDecision, type WorkspaceState } from "./workspace-state.ts";

/** Entries read at once. */
const PAGE = 5_000;

/** Entries as they are read: each column joined by line feeds, null for no entries. */
type Columns = Readonly<
  Record<
    "seqs" | "times" | "kinds" | "entryIds" | "agentIds" | "actionTypes" | "decisions" | "refIds" | "bodies",
    string | null
  >
> & { readonly count: number; readonly leafHashes: Buffer | null };

interface EntryRow {
  readonly seq: number;
  readonly at: number;
  readonly kind: number;
  readonly entryId: string;
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: number;
  /** Ids with spaces between them; empty for none. */
  readonly refId: string;
  readonly leafHash: Buffer;
  /** Empty for a decision. */
  readonly body: string;
}

function rowsFrom({ count, leafHashes, ...columns }: Columns): EntryRow[] {
  if (count === 0 || leafHashes === null) return [];
  const valuesOf = (name: keyof typeof columns): string[] => (columns[name] ?? "").split("\n");
  const [seqs, times, kinds, entryIds] = [valuesOf("seqs"), valuesOf("times"), valuesOf("kinds"), valuesOf("entryIds")];
  const [agentIds, actionTypes, decisions] = [valuesOf("agentIds"), valuesOf("actionTypes"), valuesOf("decisions")];
  const [refIds, bodies] = [valuesOf("refIds"), valuesOf("bodies")];
  return Array.from({ length: count }, (_, index) => ({
    seq: Number(seqs[index]),
    at: Number(times[index]),
    kind: Number(kinds[index]),
    entryId: entryIds[index] as string,
    agentId: agentIds[index] as string,
    actionType: actionTypes[index] as string,
    decision: Number(decisions[index]),
    refId: refIds[index] as string,
    leafHash: leafHashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
    body: bodies[index] as string,
  }));
}

function foldDecisionRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const decision = decisionFromNumber(row.decision);
  const { agentId, actionType } = row;
  const folded = {
    agentId,
    actionType,
    decision,
    atMs: row.at,
    decisionId: row.entryId,
    usedIds: row.refId === "" ? [] : row.refId.split(" "),
  };
  foldDecision(state, folded, row.seq + 1);
  const { seq, at: atMs, entryId: decisionId } = row;
  return { kind: "decision", seq, atMs, decisionId, agentId, decision };
}

function foldChangeRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const body = JSON.parse(row.body) as ControlChange & { readonly by: string };
  foldChange(state, { change: body, seq: row.seq, atMs: row.at });
  return { kind: "change", seq: row.seq, atMs: row.at, by: body.by, change: body };
}

function foldRows(state: WorkspaceState, rows: readonly EntryRow[]): LedgerEvent[] {
  const events = rows.map((row) => {
    // Checked row by row: folding over a gap would make every later decision wrong.
    if (row.seq !== state.seq)
      throw new Error(`entry ${state.seq} is missing from the log of \`${state.workspaceId}\``);
    const event = row.kind === 0 ? foldDecisionRow(state, row) : foldChangeRow(state, row);
    state.seq += 1;
    state.lastAtMs = row.at;
    return event;
  });
  const leaves = rows.map(({ leafHash }) => leafHash);
  state.frontier = appendLeaves(state.frontier, leaves);
  state.windows.settle(state.seq);
  return events;
}

/**
 * Folds what other replicas appended since, and announces it. When it returns the state is at least as new as the log was
 * at the call. MUST run while nothing tentative is in the state.
 */
export async function catchUp(
  client: Pool | PoolClient,
  state: WorkspaceState,
  announce: LedgerListener,
): Promise<void> {
  for (;;) {
    const values = [state.workspaceId, state.seq, PAGE];
    const read = await client.query<Columns>({ ...readEntriesFrom, values });
    const rows = read.rows.flatMap(rowsFrom);
    // Page by page: what is folded is never read again, so it has to be told even if the next page cannot be read.
    announce(foldRows(state, rows));
    if (rows.length < PAGE) return;
  }
}
