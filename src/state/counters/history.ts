import type { CounterReading, Decision } from "../../policy/types.ts";

/** An action that was decided, as far as windows look at it. */
export interface HistoryEntry {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly agentId: string;
  /** Trimmed and lower-cased. */
  readonly actionType: string;
  readonly decision: Decision;
}

/** How many actions of one agent, action type and decision a stretch of the log holds. */
export interface HistoryCount {
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: Decision;
  readonly count: number;
}

/** A stretch of the log that windows wait for. */
export interface MissingHistory {
  /** Index to read from; undefined: from the first entry that is later than `after`. */
  readonly from: number | undefined;
  /** Only entries before this index. */
  readonly before: number;
  /** Entries up to this time, epoch milliseconds, no longer count. */
  readonly after: number;
  /** Length in milliseconds of the windows that wait. */
  readonly windowMs: number;
}

/** What a stretch of the log holds: its oldest part entry by entry, the rest in numbers, so that any stretch fits in memory. */
export interface History {
  /** What lay before the first of `entries` and no longer counts; only for a stretch that was asked for by its index. */
  readonly expired: readonly HistoryCount[];
  /** Oldest first. */
  readonly entries: readonly HistoryEntry[];
  /** Index after the last of `entries`; equal to the stretch's end when they are all of it. */
  readonly nextIndex: number;
  /**
   * The entries from `nextIndex` to the end of the stretch. Not given for a stretch that was asked for by its index: a
   * window knows how many it holds.
   */
  readonly rest: readonly HistoryCount[];
  readonly source: CounterReading["source"];
}
