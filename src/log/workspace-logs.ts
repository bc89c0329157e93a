import { type Database, storeFault } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { createDatabaseClock, type DatabaseClock, measureClock } from "./clock.ts";
import type { WakeUp } from "./events.ts";
import { openState } from "./head.ts";
import { createWaitingPot } from "./queue.ts";
import type { LogSurroundings } from "./surroundings.ts";
import { WorkspaceLog } from "./writer.ts";

/** Time between trust snapshots of a workspace, milliseconds. A cold start reads the decisions since the last one. */
const SNAPSHOT_MS = 20_000;
/** Time after which an unused workspace without listeners is unloaded, milliseconds. */
const IDLE_MS = 600_000;
/** Time between checks of the logs that have listeners, in case a wake-up was lost, milliseconds. */
const RECHECK_MS = 5_000;

/** The workspace logs of this replica: loads each on first use, saves their trust snapshots, and unloads idle ones. */
export class WorkspaceLogs {
  /** The database's clock, for timestamps outside a log. */
  readonly clock: DatabaseClock;
  readonly #database: Database;
  readonly #log: StoreLog;
  readonly #surroundings: LogSurroundings;
  readonly #loading = new Map<string, Promise<WorkspaceLog>>();
  readonly #loaded = new Map<string, WorkspaceLog>();
  readonly #timers: readonly NodeJS.Timeout[];
  #saving: Promise<void> | undefined;

  /** Use `createWorkspaceLogs`, which measures the clock first. */
  constructor(database: Database, log: StoreLog, clock: DatabaseClock, surroundings: LogSurroundings) {
    this.clock = clock;
    this.#database = database;
    this.#log = log;
    this.#surroundings = { waitingPot: createWaitingPot(), ...surroundings };
    surroundings.metrics?.measureQueue(() => this.#waiting);
    this.#timers = [
      setInterval(() => this.#startSaving(), SNAPSHOT_MS),
      setInterval(() => this.#recheck(), RECHECK_MS),
    ];
  }

  /** Returns the log of a workspace, loading it on first use. Rejects with WORKSPACE_NOT_FOUND. */
  of(workspaceId: string): WorkspaceLog | Promise<WorkspaceLog> {
    const known = this.#loaded.get(workspaceId) ?? this.#loading.get(workspaceId);
    if (known !== undefined) return known;
    const promise = this.#load(workspaceId);
    this.#loading.set(workspaceId, promise);
    return promise;
  }

  /** Notes that another replica appended to a workspace; `undefined` when the workspaces are unknown. */
  wakeUp(wakeUp: WakeUp | undefined): void {
    if (wakeUp !== undefined) {
      this.#loaded.get(wakeUp.workspaceId)?.wakeUp(wakeUp);
      return;
    }
    for (const workspaceLog of this.#loaded.values()) {
      if (workspaceLog.listeners > 0) workspaceLog.wakeUp({ seq: Number.POSITIVE_INFINITY, isChange: true });
    }
  }

  get #waiting(): number {
    let waiting = 0;
    for (const workspaceLog of this.#loaded.values()) waiting += workspaceLog.waiting;
    return waiting;
  }

  /** Finishes all queued work, writes the trust snapshots and unloads every workspace. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#saving;
    for (const workspaceLog of this.#loaded.values()) await workspaceLog.idle();
    await this.#saveAll();
    this.#loaded.clear();
  }

  async #load(workspaceId: string): Promise<WorkspaceLog> {
    try {
      const state = await openState(this.#database, workspaceId);
      const workspaceLog = new WorkspaceLog(this.#database, state, this.clock, this.#surroundings);
      this.#loaded.set(workspaceId, workspaceLog);
      return workspaceLog;
    } catch (error) {
      throw storeFault(error);
    } finally {
      this.#loading.delete(workspaceId);
    }
  }

  #startSaving(): void {
    this.#saving ??= this.#saveAll().finally(() => {
      this.#saving = undefined;
    });
  }

  async #saveAll(): Promise<void> {
    for (const workspaceLog of this.#loaded.values()) {
      // Without its snapshot, the next cold start reads more of the log.
      await workspaceLog
        .saveTrust()
        .catch((error: Error) => this.#log.warn({ reason: error.message }, "trust snapshot failed"));
      this.#unloadIfIdle(workspaceLog);
    }
  }

  #unloadIfIdle({ workspaceId, listeners, usedAt, waiting }: WorkspaceLog): void {
    const isIdle = listeners === 0 && waiting === 0 && performance.now() - usedAt > IDLE_MS;
    if (isIdle) this.#loaded.delete(workspaceId);
  }

  #recheck(): void {
    this.wakeUp(undefined);
    // Without appends of its own, nothing else corrects this replica's clock.
    measureClock(this.#database, this.clock).catch((error: Error) =>
      this.#log.warn({ reason: error.message }, "cannot read the clock"),
    );
  }
}

/** Measures the database's clock and creates the logs. */
export async function createWorkspaceLogs(
  database: Database,
  log: StoreLog,
  surroundings: LogSurroundings = {},
): Promise<WorkspaceLogs> {
  const { clock = createDatabaseClock() } = surroundings;
  await measureClock(database, clock);
  return new WorkspaceLogs(database, log, clock, surroundings);
}
