import type { StoreLog } from "./migrate.ts";

/** Parts of a watch. */
export interface OutageWatchOptions {
  /** Asks the database for an answer. */
  readonly ping: () => Promise<unknown>;
  readonly log: Pick<StoreLog, "info" | "error">;
  /** Milliseconds after which a database that does not answer counts as away. Default 2,000. */
  readonly maxMs?: number;
  /** Milliseconds between questions during an outage. Default 500. */
  readonly retryMs?: number;
}

const DEFAULT_MAX_MS = 2_000;
const DEFAULT_RETRY_MS = 500;

/** Log with the levels that the parts behind it use. */
interface PartLog extends StoreLog {
  debug?(details: object, message: string): void;
}

/**
 * Watch for outages of the database. Whoever fails reports a suspicion, and the watch asks the database: an outage is one line in the
 * log when it begins, and one with its length when it ends.
 */
export class OutageWatch {
  readonly #options: OutageWatchOptions;
  /** `performance.now()` at the beginning of the outage. */
  #awaySince: number | undefined;
  #asking: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: OutageWatchOptions) {
    this.#options = options;
  }

  /** True during an outage. */
  get isAway(): boolean {
    return this.#awaySince !== undefined;
  }

  /** Finds out whether the database is away. Suspicions at the same time share one question. `reason` is for the log. */
  async suspect(reason: string): Promise<boolean> {
    if (this.isAway || this.#isClosed) return this.isAway;
    const suspectedAt = performance.now();
    if (await this.#answers()) return false;
    if (this.isAway || this.#isClosed) return this.isAway;
    this.#awaySince = suspectedAt;
    this.#options.log.error({ reason }, "the database is away; calls are refused until it answers");
    this.#askAgain();
    return true;
  }

  /** Returns a log whose warnings are left out while the database is away: they would all say so. */
  quieten(log: PartLog): StoreLog {
    const unlessAway =
      (level: "warn" | "error") =>
      (details: object, message: string): void => {
        void this.suspect(message).then((isAway) => {
          if (isAway) log.debug?.(details, message);
          else log[level](details, message);
        });
      };
    return {
      info: (details, message) => log.info(details, message),
      warn: unlessAway("warn"),
      error: unlessAway("error"),
    };
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #answers(): Promise<boolean> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  #ask(): Promise<boolean> {
    const { ping, maxMs = DEFAULT_MAX_MS } = this.#options;
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), maxMs);
      timer.unref();
      const settle = (answers: boolean): void => {
        clearTimeout(timer);
        resolve(answers);
      };
      ping().then(
        () => settle(true),
        () => settle(false),
      );
    });
  }

  #askAgain(): void {
    const { retryMs = DEFAULT_RETRY_MS, log } = this.#options;
    this.#timer = setTimeout(async () => {
      const answers = await this.#answers();
      if (this.#isClosed || this.#awaySince === undefined) return;
      if (!answers) return this.#askAgain();
      const awayMs = Math.round(performance.now() - this.#awaySince);
      this.#awaySince = undefined;
      log.info({ away_ms: awayMs }, "the database answers again");
    }, retryMs);
    this.#timer.unref();
  }
}
