import { Turns } from "../async/turns.ts";
import { invalidField } from "../errors.ts";
import type { LedgerEvent } from "./events.ts";
import type { WorkspaceLog } from "./writer.ts";

/** Selection of the entries that a watch shows. Watches with the same key MUST show the same entries. */
export interface Selection<T extends { readonly seq: number }> {
  readonly key: string;
  /** True for an entry that the watch shows. MUST NOT throw. */
  readonly shows: (event: LedgerEvent) => boolean;
  /**
   * Reads the selected entries from index `from` on and before index `before`, oldest first. A page MUST be cut at
   * `MAX_FEED_PAGE` items and after `MAX_FEED_BYTES` bytes, and has at least one item if the range has any.
   */
  readonly read: (from: number, before: number) => Promise<readonly T[]>;
}

/** Heartbeat of a watch: every selected entry up to index `seq` has been shown. -1 before the first entry. */
export interface Beat {
  readonly isBeat: true;
  readonly seq: number;
}

/** Options of a feed. */
export interface FeedOptions {
  /** True if other replicas wake this one for every entry that a selection shows. */
  readonly isNotified: boolean;
  /** Entries that one query looks through. Default 100,000. */
  readonly stretch?: number;
}

/** Start, heartbeat and end of a watch. */
export interface WatchOptions {
  /** Index of the last entry that the watcher has seen. Undefined: the watch begins with new entries. */
  readonly after?: number | undefined;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
}

/** Maximum number of items in a page. */
export const MAX_FEED_PAGE = 500;
/** Bytes of text after which a page ends: a stream holds no more while its reader does not read. */
export const MAX_FEED_BYTES = 262_144;
/** Few enough that a selection of rare entries never holds a connection for long. */
const DEFAULT_STRETCH = 100_000;

interface Page<T> {
  readonly items: readonly T[];
  /** Index of the next entry to look at. */
  readonly next: number;
}

/**
 * Milliseconds between looks for entries that other replicas append without a wake-up. Replicas do not notify each other of
 * every decision: that would cost all of them, watched or not.
 */
const FOLLOW_MS = 500;

/** The end of the log as the watches of one selection see it. */
interface Tail<T extends { readonly seq: number }> {
  readonly selection: Selection<T>;
  /** Index after the last announced entry that the selection shows. */
  end: number;
  watches: number;
  /** Watches that have shown everything. Each is called with the index of the next entry to show. */
  readonly waiting: Set<(seq: number) => void>;
  /** Pages being read, by their first index: watches at the same index share one query. */
  readonly reading: Map<number, Promise<Page<T>>>;
}

/**
 * Watches over one log, each of which reads it by cursor. An announced entry only wakes them: entries are read from the
 * database page by page, as fast as the reader takes them. A watch holds one page and never a queue of events, and no database
 * connection while it waits. All watches of a feed together use one connection at a time.
 */
export class LogFeed<T extends { readonly seq: number }> {
  readonly #log: WorkspaceLog;
  readonly #tails = new Map<string, Tail<T>>();
  readonly #options: Required<FeedOptions>;
  #stop: (() => void) | undefined;
  #lastRead: Promise<unknown> = Promise.resolve();

  constructor(log: WorkspaceLog, { isNotified, stretch = DEFAULT_STRETCH }: FeedOptions) {
    this.#log = log;
    this.#options = { isNotified, stretch };
  }

  /**
   * Yields every entry of the selection once, in the order of the log: first those after `after`, then new ones. Yields a
   * heartbeat after `heartbeatMs` without an entry, and at once if `after` is undefined. Returns when the signal aborts. Throws
   * INVALID_FIELD for a cursor beyond the end of the log.
   */
  async *watch(selection: Selection<T>, { after, heartbeatMs, signal }: WatchOptions): AsyncGenerator<T | Beat> {
    const tail = this.#join(selection);
    try {
      // The subscription is older than this size: together they miss nothing.
      const { seq: size } = await this.#log.caughtUp();
      if (after !== undefined && after >= size && after > 0) throw beyondTheEnd(size);
      let next = after === undefined ? size : after + 1;
      if (after === undefined) yield beatBefore(next);
      let shownAtMs = performance.now();
      const turns = new Turns();
      while (!signal.aborted) {
        for (const before = Math.max(size, tail.end); next < before && !signal.aborted; ) {
          const page = await this.#read(tail, next, Math.min(before, next + this.#options.stretch));
          for (const item of page.items) {
            // Watches at the same index get their page together, and would write all of it in one turn of the event loop.
            if (page.items.length > 1) await turns.giveWay();
            yield item;
          }
          next = page.next;
          if (page.items.length > 0) shownAtMs = performance.now();
          else if (performance.now() - shownAtMs >= heartbeatMs) {
            // Shows that a long search is alive, and lets the watcher resume it from here.
            yield beatBefore(next);
            shownAtMs = performance.now();
          }
        }
        if (next < tail.end) continue;
        const found = await nextEntry(tail, heartbeatMs, signal);
        if (found !== undefined) next = Math.max(next, found);
        else if (!signal.aborted) yield beatBefore(next);
      }
    } finally {
      this.#leave(tail);
    }
  }

  /** Reads in turn with the pages of the feed, so that all its watches together use one connection. */
  inTurn<R>(read: () => Promise<R>): Promise<R> {
    const reading = this.#lastRead.then(read);
    this.#lastRead = reading.catch(() => undefined);
    return reading;
  }

  #join(selection: Selection<T>): Tail<T> {
    const { key } = selection;
    const fresh: Tail<T> = { selection, end: 0, watches: 0, waiting: new Set(), reading: new Map() };
    const tail = this.#tails.get(key) ?? fresh;
    this.#tails.set(key, tail);
    tail.watches += 1;
    this.#stop ??= this.#follow();
    return tail;
  }

  #leave(tail: Tail<T>): void {
    tail.watches -= 1;
    if (tail.watches > 0) return;
    this.#tails.delete(tail.selection.key);
    if (this.#tails.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
  }

  #follow(): () => void {
    const unsubscribe = this.#log.subscribe((events) => this.#onEvents(events));
    if (this.#options.isNotified) return unsubscribe;
    const timer = setInterval(() => void this.#log.caughtUp().catch(() => undefined), FOLLOW_MS);
    timer.unref();
    return () => {
      clearInterval(timer);
      unsubscribe();
    };
  }

  #onEvents(events: readonly LedgerEvent[]): void {
    for (const tail of this.#tails.values()) {
      for (const event of events) {
        if (!tail.selection.shows(event)) continue;
        tail.end = event.seq + 1;
        // A watch that waits has shown everything before this entry.
        for (const wake of tail.waiting) wake(event.seq);
        tail.waiting.clear();
      }
    }
  }

  #read({ selection, reading }: Tail<T>, from: number, before: number): Promise<Page<T>> {
    const shared = reading.get(from);
    if (shared !== undefined) return shared;
    const page = this.inTurn(() => selection.read(from, before))
      .then((items) => ({ items, next: (items.at(-1)?.seq ?? before - 1) + 1 }))
      .finally(() => reading.delete(from));
    reading.set(from, page);
    return page;
  }
}

/** Parses a cursor, the index of the last entry seen; undefined for an empty one. Throws INVALID_FIELD. */
export function indexFromCursor(cursor: string): number | undefined {
  if (cursor === "") return undefined;
  if (!/^\d{1,15}$/.test(cursor)) throw invalidField("cursor", "was not given by this stream; leave it empty to begin");
  return Number(cursor);
}

function beyondTheEnd(size: number): Error {
  return invalidField("cursor", `is beyond the end of the log, which has ${size} entries; leave it empty to begin`);
}

function beatBefore(next: number): Beat {
  return { isBeat: true, seq: next - 1 };
}

/** Resolves with the index of the next entry to show, or with undefined when a heartbeat is due or the signal aborts. */
function nextEntry<T extends { readonly seq: number }>(
  { waiting }: Tail<T>,
  heartbeatMs: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const settle = (seq?: number): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", giveUp);
      waiting.delete(settle);
      resolve(seq);
    };
    const giveUp = (): void => settle();
    const timer = setTimeout(giveUp, heartbeatMs);
    waiting.add(settle);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
  });
}
