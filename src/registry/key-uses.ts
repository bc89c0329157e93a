import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { writeKeyUses } from "../store/sql/write-key-uses.ts";

/** Milliseconds for which further uses of a key are not noted. */
const EXACT_TO_MS = 60_000;
/** Milliseconds after which noted uses are written, with those that came meanwhile. */
const WRITE_AFTER_MS = 1_000;
/** Keys whose last use this process remembers. A key beyond the bound is noted more often. */
const REMEMBERED = 100_000;
/** Keys that are written by one statement. */
const AT_ONCE = 1_000;

/** Options of the uses. */
export interface KeyUsesOptions {
  readonly pool: Pool;
  readonly clock: { now(): number };
  readonly log: StoreLog;
}

/**
 * Keeps when API keys were last used, exact to a minute. Noting a use is a look into memory; it is written later, in the background, so
 * that no call waits for it. What could not be written is lost.
 */
export class KeyUses {
  readonly #options: KeyUsesOptions;
  readonly #notedAtMs = new LRUCache<string, number>({ maxSize: REMEMBERED, sizeCalculation: () => 1 });
  #waiting = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: KeyUsesOptions) {
    this.#options = options;
  }

  /** Notes a use of an API key; ids of other kinds are ignored. */
  readonly note = (keyId: string): void => {
    const nowMs = this.#options.clock.now();
    const notedAtMs = this.#notedAtMs.get(keyId);
    if ((notedAtMs !== undefined && nowMs - notedAtMs < EXACT_TO_MS) || !keyId.startsWith("key_")) return;
    this.#notedAtMs.set(keyId, nowMs);
    this.#waiting.set(keyId, nowMs);
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.flush(), WRITE_AFTER_MS);
    this.#timer.unref();
  };

  /** Writes what was noted. Resolves when it is written or lost. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const uses = [...this.#waiting];
    this.#waiting = new Map();
    this.#writing = this.#writing.then(() => this.#write(uses));
    return this.#writing;
  }

  /** Writes the rest and stops. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
  }

  async #write(uses: readonly (readonly [string, number])[]): Promise<void> {
    // In one order in every process, so that no two wait for each other.
    const ordered = uses.toSorted(([a], [b]) => (a < b ? -1 : 1));
    try {
      for (let at = 0; at < ordered.length; at += AT_ONCE) {
        const part = ordered.slice(at, at + AT_ONCE);
        const values = [part.map(([keyId]) => keyId), part.map(([, atMs]) => atMs)];
        await this.#options.pool.query({ ...writeKeyUses, values });
      }
    } catch (error) {
      this.#options.log.warn({ reason: (error as Error).message }, "last uses of keys were not written");
    }
  }
}
