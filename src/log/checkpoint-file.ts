import { open, readFile, rename } from "node:fs/promises";
import type { Pool } from "pg";
import type { StoreLog } from "../store/migrate.ts";
import { readLogSizes } from "../store/sql/read-vault.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** Parts of a `CheckpointFile`. */
export interface CheckpointFileOptions {
  readonly path: string;
  readonly pool: Pool;
  readonly vault: { checkpoint(workspaceId: string, treeSize: number | undefined): Promise<Checkpoint> };
  readonly log: Pick<StoreLog, "warn">;
  /** Milliseconds between two looks at the logs. Default 60,000. */
  readonly everyMs?: number;
  /** Bytes after which the file is renamed and a new one begun. Default 16 MiB. */
  readonly maxBytes?: number;
}

const EVERY_MS = 60_000;
const MAX_BYTES = 16_777_216;
const OWNER_ONLY = 0o600;
const ORIGIN_AND_SIZE = /^(\S+)\n(\d+)\n[A-Za-z0-9+/]+=*\n\n\u2014 /gm;

/**
 * Keeps signed checkpoints in a file, for somebody outside of the service: each minute one of every log that has grown since.
 * Only appends. A file that is full becomes `<path>.1`, in place of the one before it.
 */
export class CheckpointFile {
  readonly #options: CheckpointFileOptions;
  /** Sizes of the last kept checkpoints, by the ends of their origins: the workspaces. */
  readonly #kept = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #keeping: Promise<void> = Promise.resolve();

  constructor(options: CheckpointFileOptions) {
    this.#options = options;
  }

  /** Reads what the file holds, keeps the present checkpoints, and goes on each minute. Rejects if the file cannot be written. */
  async start(): Promise<void> {
    const { path, everyMs = EVERY_MS } = this.#options;
    const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    for (const [, origin = "", size] of text.matchAll(ORIGIN_AND_SIZE))
      this.#kept.set(workspaceOf(origin), Number(size));
    await this.#append("");
    void this.keep();
    this.#timer = setInterval(() => void this.keep(), everyMs);
    this.#timer.unref();
  }

  /** Keeps a checkpoint of every log that has grown. What fails is logged, and tried again. */
  keep(): Promise<void> {
    this.#keeping = this.#keeping.then(() =>
      this.#keepAll().catch((error: unknown) => {
        const { path } = this.#options;
        this.#options.log.warn({ path, reason: (error as Error).message }, "checkpoints could not be kept");
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
    const { pool, vault } = this.#options;
    const { rows } = await pool.query<{ workspaceId: string; size: number }>(readLogSizes);
    for (const { workspaceId, size } of rows) {
      if (size <= (this.#kept.get(workspaceId) ?? 0)) continue;
      const { treeSize, note } = await vault.checkpoint(workspaceId, undefined);
      await this.#append(`${note}\n`);
      this.#kept.set(workspaceId, treeSize);
    }
  }

  /** Appends in one write, so that a reader sees whole checkpoints. */
  async #append(text: string): Promise<void> {
    const { path, maxBytes = MAX_BYTES } = this.#options;
    const file = await open(path, "a", OWNER_ONLY);
    try {
      await file.chmod(OWNER_ONLY);
      if (text !== "") await file.appendFile(text);
      await file.datasync();
      if ((await file.stat()).size >= maxBytes) await rename(path, `${path}.1`);
    } finally {
      await file.close();
    }
  }
}

/** Returns the workspace of a log by its origin, `<service>/vault/<workspace>`. */
const workspaceOf = (origin: string): string => origin.slice(origin.lastIndexOf("/") + 1);
