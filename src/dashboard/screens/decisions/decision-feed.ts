import { type Client, Code, ConnectError } from "@connectrpc/connect";
import type {
  EnforcementService,
  WatchDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, type DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { followStream } from "../../../client/follow-stream.ts";
import { admits, DECISION_WORDS, type FeedFilter, listRequestOf, whyNotLive } from "./feed-filter.ts";

/** State of a feed. */
export interface FeedState {
  /** Newest first. */
  readonly rows: readonly DecisionRecord[];
  /** Decisions that arrived while the feed was paused. */
  readonly waiting: number;
  readonly link: "connecting" | "live" | "broken" | "off";
  readonly isPaused: boolean;
  readonly isReading: boolean;
  /** True if older decisions may exist. */
  readonly hasMore: boolean;
  /** True if a search read many entries of the log, found too little and was stopped. */
  readonly isSearchStopped: boolean;
  readonly error: unknown;
}

const PAGE_SIZE = 500;
/** Empty pages in a row after which a search pauses; each stands for 50,000 entries. */
const MAX_EMPTY_PAGES = 10;
/** Maximum number of live rows kept while the feed is paused. Beyond it, the newest page is read again. */
const MAX_WAITING = 2_000;
/** Maximum number of rows on the page. Live rows beyond it start the list anew. */
const MAX_ROWS = 200_000;
/** Interval at which live rows are shown together. */
const SHOW_EVERY_MS = 100;
const PAUSES = { firstMs: 500, maxMs: 15_000 };

const EMPTY: FeedState = {
  rows: [],
  waiting: 0,
  link: "connecting",
  isPaused: false,
  isReading: true,
  hasMore: false,
  isSearchStopped: false,
  error: undefined,
};

/**
 * Newest decisions and their history: live ones from a watch that resumes at its cursor, older ones page by page.
 * Free of gaps and duplicates: the first page is read after the watch began, and rows are joined by their index in the log.
 */
export class DecisionFeed {
  readonly #client: Client<typeof EnforcementService>;
  readonly #filter: FeedFilter;
  readonly #onSignedOut: () => void;
  readonly #listeners = new Set<() => void>();
  #stopped = new AbortController();
  #state: FeedState = EMPTY;
  #cursor = "";
  #pageToken: string | undefined = "";
  /** Live rows still to be shown, oldest first. */
  #arrived: DecisionRecord[] = [];
  #dropped = 0;
  #isAway = false;
  /** Number of the current list. A page requested for an earlier list is dropped. */
  #generation = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Client<typeof EnforcementService>, filter: FeedFilter, onSignedOut: () => void) {
    this.#client = client;
    this.#filter = filter;
    this.#onSignedOut = onSignedOut;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): FeedState => this.#state;

  /** Starts watching and reading. */
  start(): void {
    this.#stopped = new AbortController();
    this.#set({ ...EMPTY, isPaused: this.#state.isPaused });
    this.#cursor = "";
    if (whyNotLive(this.#filter, Date.now()) === undefined) {
      void this.#watch();
    } else {
      this.#set({ link: "off" });
      this.#readFirst();
    }
  }

  stop(): void {
    this.#generation++;
    this.#stopped.abort();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Pauses or resumes live decisions. */
  pause(isPaused: boolean): void {
    this.#set({ isPaused });
    this.#show();
  }

  /** Notes that the list is scrolled to older rows, which live rows would move. */
  readonly away = (isAway: boolean): void => {
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    this.#show();
  };

  /** Reads older decisions. */
  readonly readMore = (): void => {
    const { isReading, isSearchStopped } = this.#state;
    if (!isReading && !isSearchStopped) this.#readOn();
  };

  /** Resumes a search that was stopped, or tries again after a fault. */
  readonly searchOn = (): void => {
    this.#set({ isSearchStopped: false, error: undefined });
    if (this.#pageToken === "") this.#readFirst();
    else this.#readOn();
  };

  async #watch(): Promise<void> {
    const { signal } = this.#stopped;
    const { agent, decision } = this.#filter;
    const request = { agentId: agent, decision: DECISION_WORDS.get(decision) ?? Decision.UNSPECIFIED };
    let isNew = true;
    const messages = followStream({
      open: (ending) => {
        isNew = this.#cursor === "";
        return this.#client.watchDecisions({ ...request, cursor: this.#cursor }, { signal: ending, timeoutMs: 0 });
      },
      signal,
      pauses: PAUSES,
      onLost: (fault) => this.#onLost(fault),
    });
    for await (const message of messages) {
      this.#receive(message);
      if (this.#state.link === "live") continue;
      this.#set({ link: "live" });
      if (isNew) this.#readFirst();
    }
  }

  #onLost(fault: unknown): undefined {
    const code = fault === undefined ? undefined : ConnectError.from(fault).code;
    if (code === Code.Unauthenticated || code === Code.PermissionDenied) {
      this.#stopped.abort();
      this.#onSignedOut();
      return;
    }
    this.#set({ link: "broken" });
    // A log that ends before the cursor is another log.
    if (code === Code.InvalidArgument || code === Code.OutOfRange) this.#cursor = "";
    if (fault !== undefined && this.#state.rows.length === 0) this.#readFirst();
  }

  #receive({ decision, cursor }: WatchDecisionsResponse): void {
    this.#cursor = cursor;
    if (decision === undefined || !admits(this.#filter, decision)) return;
    this.#arrived.push(decision);
    if (this.#isHeld && this.#arrived.length > MAX_WAITING) {
      this.#dropped += this.#arrived.length;
      this.#arrived = [];
    }
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#show();
    }, SHOW_EVERY_MS);
  }

  get #isHeld(): boolean {
    return this.#state.isPaused || this.#isAway;
  }

  #show(): void {
    if (this.#isHeld) {
      this.#set({ waiting: this.#arrived.length + this.#dropped });
      return;
    }
    // The first page replaces all rows, so live rows wait for it.
    if (this.#pageToken === "") return;
    const { rows } = this.#state;
    if (this.#dropped > 0 || rows.length + this.#arrived.length > MAX_ROWS) {
      this.#readFirst();
      return;
    }
    const newest = rows[0]?.seq ?? -1n;
    const fresh = this.#arrived.filter(({ seq }) => seq > newest).reverse();
    this.#arrived = [];
    if (fresh.length > 0 || this.#state.waiting > 0) this.#set({ rows: [...fresh, ...rows], waiting: 0 });
  }

  #readFirst(): void {
    this.#generation++;
    this.#dropped = 0;
    this.#pageToken = "";
    this.#set({ waiting: 0, isReading: true, error: undefined });
    this.#readOn();
  }

  #readOn(): void {
    const generation = this.#generation;
    this.#set({ isReading: true });
    this.#readPages(generation).then(
      () => generation === this.#generation && this.#set({ isReading: false }),
      (error: unknown) => generation === this.#generation && this.#set({ isReading: false, error }),
    );
  }

  /** Reads pages until one holds decisions. */
  async #readPages(generation: number): Promise<void> {
    const { signal } = this.#stopped;
    for (let empty = 0; empty < MAX_EMPTY_PAGES; empty++) {
      const isFirst = this.#pageToken === "";
      const request = { ...listRequestOf(this.#filter), pageSize: PAGE_SIZE, pageToken: this.#pageToken ?? "" };
      const { decisions, nextPageToken } = await this.#client.listDecisions(request, { signal });
      if (generation !== this.#generation) return;
      this.#pageToken = nextPageToken;
      const rows = isFirst ? decisions : [...this.#state.rows, ...decisions];
      const hasMore = nextPageToken !== undefined && rows.length < MAX_ROWS;
      this.#set({ rows, hasMore, isSearchStopped: false, isReading: hasMore && decisions.length === 0 });
      if (isFirst) this.#show();
      if (decisions.length > 0 || nextPageToken === undefined) return;
    }
    this.#set({ isSearchStopped: true });
  }

  #set(change: Partial<FeedState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) listener();
  }
}
