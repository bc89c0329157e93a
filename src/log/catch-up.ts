import type { ControlChange } from "../state/control-changes.ts";
import { foldChange, foldDecision } from "../state/fold.ts";
import { decisionFromNumber, EntryKind } from "../state/stored-enums.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { readEntriesFrom } from "../store/sql/read-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { frontierFromBytes } from "../tree/merkle.ts";
import type { LedgerEvent, LedgerListener } from "./events.ts";

/** Entries per page: folding one keeps the event loop busy for a few milliseconds. */
const PAGE = 2_000;

interface EntryRow {
  readonly seq: number;
  readonly at: number;
  readonly kind: number;
  readonly entryId: string;
  readonly agentId: string | null;
  readonly actionType: string | null;
  readonly decision: number | null;
  readonly refId: string | null;
  readonly body: string | null;
  /** Frontier of the whole log; set on its last entry only. */
  readonly frontier: Buffer | null;
}

function foldDecisionRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const decision = decisionFromNumber(row.decision ?? 0);
  const { seq, at: atMs, entryId: decisionId } = row;
  const agentId = row.agentId ?? "";
  const usedIds = row.refId?.split(" ") ?? [];
  if (row.kind === EntryKind.DECISION)
    foldDecision(state, { seq, atMs, agentId, actionType: row.actionType ?? "", decision, decisionId, usedIds });
  return { kind: "decision", seq, atMs, decisionId, agentId, decision };
}

function foldChangeRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const body = JSON.parse(row.body ?? "null") as ControlChange & { readonly by: string };
  foldChange(state, { change: body, seq: row.seq, atMs: row.at });
  return { kind: "change", seq: row.seq, atMs: row.at, by: body.by, change: body };
}

function foldRows(state: WorkspaceState, rows: readonly EntryRow[]): LedgerEvent[] {
  const events = rows.map((row) => {
    // Folding over a gap would make every later decision wrong.
    if (row.seq !== state.seq)
      throw new Error(`entry ${state.seq} is missing from the log of \`${state.workspaceId}\``);
    const event = row.kind === EntryKind.CHANGE ? foldChangeRow(state, row) : foldDecisionRow(state, row);
    state.seq += 1;
    state.lastAtMs = row.at;
    // The frontier is stale until the end of the log is read. Appends fail the comparison until then.
    if (row.frontier !== null) state.frontier = frontierFromBytes(state.seq, row.frontier);
    return event;
  });
  state.windows.settle(state.seq);
  return events;
}

/**
 * Folds the entries that other replicas appended and announces them. When it resolves, the state is at least as new as the
 * log was at the call. MUST run while no batch is in flight.
 */
export async function catchUp(reader: Reader, state: WorkspaceState, announce: LedgerListener): Promise<void> {
  for (;;) {
    const values = [state.workspaceId, state.seq, PAGE];
    const { rows } = await reader.query<EntryRow>({ ...readEntriesFrom, values });
    // Announced page by page: folded entries are never read again, even if the next page cannot be read.
    announce(foldRows(state, rows));
    if (rows.length < PAGE) return;
  }
}
