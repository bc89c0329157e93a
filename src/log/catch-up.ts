import type { ControlChange } from "../state/control-changes.ts";
import { decisionFromNumber } from "../state/stored-enums.ts";
import { foldChange, foldDecision, type WorkspaceState } from "../state/workspace.ts";
import { readEntriesFrom } from "../store/sql/read-entries.ts";
import type { Reader } from "../store/transaction.ts";
import { frontierFromBytes } from "../tree/merkle.ts";
import type { LedgerEvent, LedgerListener } from "./events.ts";

/** Entries read at once: few enough that folding them keeps nobody waiting (3 us each). */
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
  /** Of the whole log; with the entry that it ends with. */
  readonly frontier: Buffer | null;
}

/** What a decision used up, from the text that its entry has of it. */
export const usedIdsFrom = (text: string): string[] => (text === "" ? [] : text.split(" "));

function foldDecisionRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const decision = decisionFromNumber(row.decision ?? 0);
  const { seq, at: atMs, entryId: decisionId } = row;
  const agentId = row.agentId ?? "";
  const usedIds = usedIdsFrom(row.refId ?? "");
  foldDecision(state, { agentId, actionType: row.actionType ?? "", decision, atMs, decisionId, usedIds }, seq + 1);
  return { kind: "decision", seq, atMs, decisionId, agentId, decision };
}

function foldChangeRow(state: WorkspaceState, row: EntryRow): LedgerEvent {
  const body = JSON.parse(row.body ?? "null") as ControlChange & { readonly by: string };
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
    // Until the end of the log is read the frontier is an old one. Nothing can be appended then: the log has moved on.
    if (row.frontier !== null) state.frontier = frontierFromBytes(state.seq, row.frontier);
    return event;
  });
  state.windows.settle(state.seq);
  return events;
}

/**
 * Folds what other replicas appended since, and announces it. When it returns the state is at least as new as the log was
 * at the call. MUST run while nothing tentative is in the state.
 */
export async function catchUp(reader: Reader, state: WorkspaceState, announce: LedgerListener): Promise<void> {
  for (;;) {
    const values = [state.workspaceId, state.seq, PAGE];
    const { rows } = await reader.query<EntryRow>({ ...readEntriesFrom, values });
    // Page by page: what is folded is never read again, so it has to be told even if the next page cannot be read.
    announce(foldRows(state, rows));
    if (rows.length < PAGE) return;
  }
}
