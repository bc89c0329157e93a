import type { ControlChange } from "../state/control-changes.ts";
import { foldChange, foldDecision, foldFollowUp, refsFromText } from "../state/fold.ts";
import type { SealedClaim, SealedOutcome } from "../state/outcomes.ts";
import { decisionFromNumber, EntryKind } from "../state/types.ts";
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
  readonly principalId: string | null;
  readonly actionType: string | null;
  readonly decision: number | null;
  readonly refId: string | null;
  readonly body: string | null;
  /** Frontier of the whole log; set on its last entry only. */
  readonly frontier: Buffer | null;
}

function eventFrom(row: EntryRow): LedgerEvent {
  const { seq, at: atMs } = row;
  if (row.kind === EntryKind.CHANGE) {
    const change = JSON.parse(row.body ?? "null") as ControlChange & { readonly by: string };
    return { kind: "change", seq, atMs, by: change.by, change };
  }
  if (row.kind === EntryKind.CLAIM || row.kind === EntryKind.OUTCOME) {
    return { kind: "follow_up", seq, atMs, sealed: JSON.parse(row.body ?? "null") as SealedClaim | SealedOutcome };
  }
  const decision = decisionFromNumber(row.decision ?? 0);
  const { entryId: decisionId, agentId, refId } = row;
  const { ask, isOverdrawn = false } = refsFromText(refId, decisionId);
  return { kind: "decision", seq, atMs, decisionId, agentId: agentId ?? "", decision, ask, isOverdrawn };
}

function fold(state: WorkspaceState, event: LedgerEvent, { kind, principalId, actionType, refId }: EntryRow): void {
  if (event.kind === "change") foldChange(state, event);
  else if (event.kind === "follow_up") foldFollowUp(state, event.sealed);
  else if (kind === EntryKind.DECISION)
    foldDecision(state, {
      ...event,
      principalId: principalId ?? undefined,
      actionType: actionType ?? "",
      refs: refsFromText(refId, event.decisionId),
    });
}

/** Splits rows before each change of a list: its values are read before it is folded. */
function stretchesOf(rows: readonly EntryRow[]): (readonly EntryRow[])[] {
  const stretches: EntryRow[][] = [[]];
  for (const row of rows) {
    if (isListChange(row)) stretches.push([]);
    stretches.at(-1)?.push(row);
  }
  return stretches;
}

const isListChange = ({ kind, body }: EntryRow): boolean =>
  kind === EntryKind.CHANGE && body !== null && body.includes('"type":"list_changed"');

/** Prepares the change of a list that a stretch begins with, if any. */
async function prepareFirst(reader: Reader, state: WorkspaceState, [first]: readonly EntryRow[]): Promise<void> {
  if (first === undefined || !isListChange(first)) return;
  const change = JSON.parse(first.body ?? "null") as ControlChange;
  if (change.type === "list_changed") await state.lists.prepareSealed(reader, state.workspaceId, change.list);
}

function foldRows(state: WorkspaceState, rows: readonly EntryRow[]): LedgerEvent[] {
  const events = rows.map((row) => {
    // Folding over a gap would make every later decision wrong.
    if (row.seq !== state.seq)
      throw new Error(`entry ${state.seq} is missing from the log of \`${state.workspaceId}\``);
    const event = eventFrom(row);
    fold(state, event, row);
    state.seq += 1;
    state.lastAtMs = row.at;
    // The frontier is stale until the end of the log is read. Appends fail the comparison until then.
    if (row.frontier !== null) state.frontier = frontierFromBytes(state.seq, row.frontier);
    return event;
  });
  state.windows.settle(state.seq);
  state.budgets.bound();
  return events;
}

/**
 * Folds the entries that other replicas appended and announces them. When it resolves, the state is at least as new as the
 * log was at the call. MUST run while no batch is in flight.
 */
export async function catchUp(reader: Reader, state: WorkspaceState, announce: LedgerListener): Promise<void> {
  const { lists, workspaceId } = state;
  let unreadAt = -1;
  for (;;) {
    const values = [workspaceId, state.seq, PAGE];
    const { rows } = await reader.query<EntryRow>({ ...readEntriesFrom, values });
    // Announced stretch by stretch: folded entries are never read again, even if what follows cannot be read.
    for (const stretch of stretchesOf(rows)) {
      await prepareFirst(reader, state, stretch);
      announce(foldRows(state, stretch));
    }
    if (rows.length === PAGE) continue;
    if (!lists.hasUnread || (await lists.readUnread(reader, workspaceId))) return;
    // A list that has changed since is behind an entry that is to be read.
    if (unreadAt === state.seq) throw new Error(`the values of a list of \`${workspaceId}\` are missing`);
    unreadAt = state.seq;
  }
}

/** Announces a stretch of the log that the state already holds. */
export async function announceStretch(
  reader: Reader,
  stretch: { readonly workspaceId: string; readonly from: number; readonly before: number },
  announce: LedgerListener,
): Promise<void> {
  const { workspaceId, before } = stretch;
  for (let seq = stretch.from; seq < before; seq += PAGE) {
    const values = [workspaceId, seq, Math.min(PAGE, before - seq)];
    const { rows } = await reader.query<EntryRow>({ ...readEntriesFrom, values });
    announce(rows.map(eventFrom));
  }
}
