import { countHistory, findFirstAfter, readHistoryPage } from "../../store/sql/read-decisions.ts";
import type { Reader } from "../../store/transaction.ts";
import { decisionFromNumber } from "../stored-enums.ts";
import type { WorkspaceState } from "../workspace.ts";
import type { History, HistoryCount, HistoryEntry, MissingHistory } from "./history.ts";

/** Another place than the log that windows may be loaded from. */
export interface HistoryMirror {
  /** The history, exactly as the log has it; undefined when it is not known here. MUST NOT reject, and not take long. */
  load(workspaceId: string, missing: MissingHistory): Promise<History | undefined>;
}

/** Decisions read entry by entry at once; what is more of a stretch is counted by the database. */
const PAGE = 8_192;

/** The first decisions of a stretch of the log. */
export interface Page {
  readonly entries: readonly HistoryEntry[];
  /** Index after the page; that of the stretch's end when it has no more. */
  readonly nextIndex: number;
}

interface PageRow {
  readonly seqs: string | null;
  readonly times: string;
  readonly agents: string;
  readonly types: string;
  readonly decisions: string;
}

/** Reads the first decisions of a stretch of the log, oldest first; what is more comes with the next page. */
export async function readPage(
  client: Reader,
  workspaceId: string,
  from: number,
  before: number,
  limit = PAGE,
): Promise<Page> {
  const { rows } = await client.query<PageRow>({ ...readHistoryPage, values: [workspaceId, from, before, limit] });
  const [row] = rows;
  if (row === undefined || row.seqs === null) return { entries: [], nextIndex: before };
  const [seqs, times, agents, types, decisions] = [row.seqs, row.times, row.agents, row.types, row.decisions].map(
    (column) => column.split("\n"),
  ) as [string[], string[], string[], string[], string[]];
  const entries = seqs.map((_, index) => ({
    at: Number(times[index]),
    agentId: agents[index] as string,
    actionType: types[index] as string,
    decision: decisionFromNumber(Number(decisions[index])),
  }));
  return { entries, nextIndex: seqs.length < limit ? before : Number(seqs.at(-1)) + 1 };
}

async function countStretch(
  client: Reader,
  workspaceId: string,
  from: number,
  before: number,
): Promise<readonly HistoryCount[]> {
  if (from >= before) return [];
  type Row = Omit<HistoryCount, "decision"> & { readonly decision: number };
  const { rows } = await client.query<Row>({ ...countHistory, values: [workspaceId, from, before] });
  return rows.map((row) => ({ ...row, decision: decisionFromNumber(row.decision) }));
}

async function firstAfter(
  client: Reader,
  workspaceId: string,
  { after, before }: Pick<MissingHistory, "after" | "before">,
): Promise<number> {
  const search = { ...findFirstAfter, values: [workspaceId, after, before] };
  return (await client.query<{ seq: number }>(search)).rows[0]?.seq ?? before;
}

/**
 * Reads a stretch of the log that windows wait for: `page` decisions entry by entry (default 8,192), the rest in numbers, so
 * that the memory does not grow with it.
 */
export async function loadHistory(
  client: Reader,
  workspaceId: string,
  missing: MissingHistory,
  page = PAGE,
): Promise<History> {
  const { from, before } = missing;
  const first = Math.max(from ?? 0, await firstAfter(client, workspaceId, missing));
  const { entries, nextIndex } = await readPage(client, workspaceId, first, before, page);
  const [expired, rest] =
    from === undefined
      ? [[], await countStretch(client, workspaceId, nextIndex, before)]
      : [await countStretch(client, workspaceId, from, first), []];
  return { expired, entries, nextIndex, rest, source: "decision_log" };
}

/**
 * Reads what the sequences in force wait for: every decision in their windows, page by page in the order of the log, since
 * nothing else tells entries of one millisecond apart.
 */
async function completeSequences(
  client: Reader,
  { sequences, workspaceId, seq, lastAtMs }: WorkspaceState,
): Promise<void> {
  const replay = sequences.replay();
  let next = await firstAfter(client, workspaceId, { after: lastAtMs - replay.windowMs, before: seq });
  while (next < seq) {
    const { entries, nextIndex } = await readPage(client, workspaceId, next, seq);
    replay.add(entries);
    next = nextIndex;
  }
  replay.finish();
}

/**
 * Loads what the windows and sequences in force lack. Gives the time, epoch milliseconds, as of which they are complete: what is decided
 * before the next await MUST be decided as of it.
 */
export async function completeWindows(
  client: Reader,
  state: WorkspaceState,
  clock: { now(): number },
  mirror?: HistoryMirror,
): Promise<number> {
  if (!state.sequences.isComplete) await completeSequences(client, state);
  for (;;) {
    const now = Math.max(clock.now(), state.lastAtMs);
    const missing = state.windows.missing(now, state.seq);
    if (missing === undefined) return now;
    const mirrored = missing.from === undefined ? await mirror?.load(state.workspaceId, missing) : undefined;
    state.windows.load(missing, mirrored ?? (await loadHistory(client, state.workspaceId, missing)));
  }
}
