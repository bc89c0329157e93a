import type { Pool } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { deleteEndedSessions } from "../store/sql/observations.ts";

/** Milliseconds between sweeps. With the grace below, what a session observed is gone within a minute of its end. */
const SWEEP_MS = 20_000;
/** Milliseconds after its expiry in which a batch that was decided before may still be written. */
const GRACE_MS = 20_000;
/** Sessions that one statement forgets. */
const AT_ONCE = 500;

/** Deletes what sessions observed, with their keys, soon after they end or expire. */
export class EndedSessions {
  readonly #pool: Pool;
  readonly #now: () => number;
  readonly #log: StoreLog;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  /** `now` returns the database's time, epoch milliseconds. */
  constructor({ pool, now, log }: { readonly pool: Pool; readonly now: () => number; readonly log: StoreLog }) {
    this.#pool = pool;
    this.#now = now;
    this.#log = log;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running ??= this.sweep()
        .catch((error: Error) => this.#log.warn({ reason: error.message }, "cannot forget ended sessions"))
        .finally(() => {
          this.#running = undefined;
        });
    }, SWEEP_MS);
    this.#timer.unref();
  }

  /** Stops once the sweep in progress is done. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Forgets every session that has ended. */
  async sweep(): Promise<void> {
    for (;;) {
      const values = [this.#now() - GRACE_MS, AT_ONCE];
      const { rows } = await this.#pool.query<{ sessions: number }>({ ...deleteEndedSessions, values });
      if ((rows[0]?.sessions ?? 0) < AT_ONCE) return;
    }
  }
}
