import type { Pool } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { readLogSizes } from "../store/sql/read-vault.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** A place outside of the database where checkpoints are kept. */
export interface CheckpointStore {
  /** Name of the place in the log, without secrets. */
  readonly name: string;
  /** Returns the size of the last kept checkpoint by workspace. Rejects if the place cannot take any. */
  open(): Promise<ReadonlyMap<string, number>>;
  /** Keeps a signed note. Resolves once it is there. */
  keep(note: string): Promise<void>;
}

/** Parts of a `CheckpointKeeper`. */
export interface CheckpointKeeperOptions {
  readonly store: CheckpointStore;
  readonly pool: Pool;
  readonly vault: { checkpoint(workspaceId: string, treeSize: number | undefined): Promise<Checkpoint> };
  readonly log: Pick<StoreLog, "warn">;
  /** Milliseconds between two looks at the logs. Default 60,000. */
  readonly everyMs?: number;
}

const EVERY_MS = 60_000;

/**
 * Sends signed checkpoints to a place of somebody outside of the service: each minute one of every log that has grown since. A
 * checkpoint that fails is sent again with the next look, as it is by then; it covers what the failed one covered.
 */
export class CheckpointKeeper {
  readonly #options: CheckpointKeeperOptions;
  /** Sizes of the last kept checkpoints, by workspace. */
  #kept = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #keeping: Promise<void> = Promise.resolve();

  constructor(options: CheckpointKeeperOptions) {
    this.#options = options;
  }

  /** Opens the place, keeps the present checkpoints, and goes on each minute. Rejects if the place cannot take any. */
  async start(): Promise<void> {
    const { store, everyMs = EVERY_MS } = this.#options;
    this.#kept = new Map(await store.open());
    void this.keep();
    this.#timer = setInterval(() => void this.keep(), everyMs);
    this.#timer.unref();
  }

  /** Keeps a checkpoint of every log that has grown. The first fault ends the look and is logged. */
  keep(): Promise<void> {
    this.#keeping = this.#keeping.then(() =>
      this.#keepAll().catch((error: unknown) => {
        const { store, log } = this.#options;
        log.warn({ place: store.name, reason: (error as Error).message }, "checkpoints could not be kept");
      }),
    );
    return this.#keeping;
  }

  /** Keeps the last checkpoints. MUST be called before the database is closed. */
  async close(): Promise<void> {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    await this.keep();
  }

  async #keepAll(): Promise<void> {
    const { store, pool, vault } = this.#options;
    const { rows } = await pool.query<{ workspaceId: string; size: number }>(readLogSizes);
    for (const { workspaceId, size } of rows) {
      if (size <= (this.#kept.get(workspaceId) ?? 0)) continue;
      const { treeSize, note } = await vault.checkpoint(workspaceId, undefined);
      await store.keep(note);
      this.#kept.set(workspaceId, treeSize);
    }
  }
}
