import type { CounterReading, Decision } from "../../policy/types.ts";
import { countHistory, findFirstAfter, readHistoryPage } from "../../store/sql/read-decisions.ts";
import type { Reader } from "../../store/transaction.ts";
import { decisionFromNumber } from "../types.ts";
import type { WorkspaceState } from "../workspace.ts";
import { loadAmounts } from "./budget-history.ts";

/** The part of a decided action that windows and sequences depend on. */
export interface HistoryEntry {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly agentId: string;
  /** The agent on whose behalf it was attempted, under grants that held; undefined for an agent that acted for itself. */
  readonly principalId?: string | undefined;
  /** Trimmed and lower-cased. */
  readonly actionType: string;
  readonly decision: Decision;
}

/** Number of actions of one agent, principal, action type and decision in a stretch of the log. */
export interface HistoryCount extends Omit<HistoryEntry, "at"> {
  readonly count: number;
}

/** A stretch of the log that windows wait for. */
export interface MissingHistory {
  /** First index; undefined for the first entry later than `after`. */
  readonly from: number | undefined;
  /** Index to stop before. */
  readonly before: number;
  /** Entries up to this time, epoch milliseconds, no longer count. */
  readonly after: number;
  /** Length in milliseconds of the windows that wait. */
  readonly windowMs: number;
}

/**
 * The content of a stretch of the log: its oldest part entry by entry, the rest as counts, so that a stretch of any length fits
 * in memory.
 */
export interface History {
  /** Counts of the entries before `entries` that no longer count. Only for a stretch that was requested by its index. */
  readonly expired: readonly HistoryCount[];
  /** Oldest first. */
  readonly entries: readonly HistoryEntry[];
  /** Index after the last of `entries`; the end of the stretch if there are no more. */
  readonly nextIndex: number;
  /**
   * Counts of the entries from `nextIndex` to the end of the stretch. Empty for a stretch that was requested by its index:
   * windows have counted those already.
   */
  readonly rest: readonly HistoryCount[];
  readonly source: CounterReading["source"];
}

/** Second source of window histories beside the log. */
export interface HistoryMirror {
  /** Returns the history exactly as the log holds it; undefined if the mirror lacks it. MUST be quick and MUST NOT reject. */
  load(workspaceId: string, missing: MissingHistory): Promise<History | undefined>;
}

/** Decisions that one read returns entry by entry; the database counts the others of a stretch. */
const PAGE = 8_192;

/** First decisions of a stretch of the log. */
interface Page {
  readonly entries: readonly HistoryEntry[];
  /** Index after the page; the end of the stretch if there are no more. */
  readonly nextIndex: number;
}

interface PageRow {
  readonly seqs: string | null;
  readonly times: string;
  readonly agents: string;
  /** Empty texts for agents that acted for themselves. */
  readonly principals: string;
  readonly types: string;
  readonly decisions: string;
}

async function readPage(
  reader: Reader,
  workspaceId: string,
  from: number,
  before: number,
  limit = PAGE,
): Promise<Page> {
  const { rows } = await reader.query<PageRow>({ ...readHistoryPage, values: [workspaceId, from, before, limit] });
  const [row] = rows;
  if (row === undefined || row.seqs === null) return { entries: [], nextIndex: before };
  const columns = [row.seqs, row.times, row.agents, row.principals, row.types, row.decisions];
  const [seqs, times, agents, principals, types, decisions] = columns.map((column) => column.split("\n")) as [
    string[],
    string[],
    string[],
    string[],
    string[],
    string[],
  ];
  const entries = seqs.map((_, index) => ({
    at: Number(times[index]),
    agentId: agents[index] as string,
    principalId: principals[index] || undefined,
    actionType: types[index] as string,
    decision: decisionFromNumber(Number(decisions[index])),
  }));
  return { entries, nextIndex: seqs.length < limit ? before : Number(seqs.at(-1)) + 1 };
}

async function countStretch(
  reader: Reader,
  workspaceId: string,
  from: number,
  before: number,
): Promise<readonly HistoryCount[]> {
  if (from >= before) return [];
  type Row = Omit<HistoryCount, "decision" | "principalId"> & { readonly decision: number; principalId: string | null };
  const { rows } = await reader.query<Row>({ ...countHistory, values: [workspaceId, from, before] });
  return rows.map(({ principalId, decision, ...row }) => ({
    ...row,
    principalId: principalId ?? undefined,
    decision: decisionFromNumber(decision),
  }));
}

async function firstAfter(
  reader: Reader,
  workspaceId: string,
  { after, before }: Pick<MissingHistory, "after" | "before">,
): Promise<number> {
  const search = { ...findFirstAfter, values: [workspaceId, after, before] };
  return (await reader.query<{ seq: number }>(search)).rows[0]?.seq ?? before;
}

/**
 * Reads a stretch of the log that windows wait for: `page` decisions entry by entry (default 8,192), the rest as counts, so
 * that memory does not grow with the stretch.
 */
export async function loadHistory(
  reader: Reader,
  workspaceId: string,
  missing: MissingHistory,
  page = PAGE,
): Promise<History> {
  const { from, before } = missing;
  const first = Math.max(from ?? 0, await firstAfter(reader, workspaceId, missing));
  const { entries, nextIndex } = await readPage(reader, workspaceId, first, before, page);
  const [expired, rest] =
    from === undefined
      ? [[], await countStretch(reader, workspaceId, nextIndex, before)]
      : [await countStretch(reader, workspaceId, from, first), []];
  return { expired, entries, nextIndex, rest, source: "decision_log" };
}

/**
 * Reads the history of sequences that wait for it, page by page: they need every decision in their windows in the order of
 * the log, because several may have the same millisecond.
 */
async function completeSequences(
  reader: Reader,
  { sequences, workspaceId, seq, lastAtMs }: WorkspaceState,
): Promise<void> {
  const replay = sequences.replay();
  let next = await firstAfter(reader, workspaceId, { after: lastAtMs - replay.windowMs, before: seq });
  while (next < seq) {
    const { entries, nextIndex } = await readPage(reader, workspaceId, next, seq);
    replay.add(entries);
    next = nextIndex;
  }
  replay.finish();
}

/**
 * Loads the history that windows, sequences and budgets in force lack. Returns the time, epoch milliseconds, as of which they are
 * complete: decisions before the next await MUST be made as of that time. `mirror`: second source of histories, default none.
 * `outcomesBefore`: index to stop before for outcomes, default the end of the log that the state is at.
 */
export async function completeWindows(
  reader: Reader,
  state: WorkspaceState,
  clock: { now(): number },
  { mirror, outcomesBefore }: { readonly mirror?: HistoryMirror | undefined; readonly outcomesBefore?: number } = {},
): Promise<number> {
  if (!state.sequences.isComplete) await completeSequences(reader, state);
  for (;;) {
    const now = Math.max(clock.now(), state.lastAtMs);
    const missing = state.windows.missing(now, state.seq);
    if (missing !== undefined) {
      const mirrored = missing.from === undefined ? await mirror?.load(state.workspaceId, missing) : undefined;
      state.windows.load(missing, mirrored ?? (await loadHistory(reader, state.workspaceId, missing)));
      continue;
    }
    const amounts = state.budgets.missing(now);
    if (amounts === undefined) return now;
    state.budgets.load(
      amounts,
      await loadAmounts(reader, state, amounts, { ...(outcomesBefore !== undefined && { outcomesBefore }) }),
    );
  }
}
