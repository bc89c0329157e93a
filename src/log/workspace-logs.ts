import { loadState } from "../state/load.ts";
import { type Database, storeFault } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readClock } from "../store/sql/read-entries.ts";
import type { WakeUp } from "./events.ts";
import { type LogSurroundings, WorkspaceLog } from "./writer.ts";

/** Time between trust snapshots of a workspace, milliseconds. A cold start reads the decisions since the last one. */
const SNAPSHOT_MS = 20_000;
/** Time after which an unused workspace without listeners is unloaded, milliseconds. */
const IDLE_MS = 600_000;
/** Time between checks of the logs that have listeners, in case a wake-up was lost, milliseconds. */
const RECHECK_MS = 5_000;

/**
 * Estimate of the database's clock. Replicas never use their host's wall clock: they read a monotonic clock and add its
 * offset from the database's, which every statement that returns the time corrects.
 */
export interface DatabaseClock {
  /** Returns whole epoch milliseconds, which never go backwards. */
  now(): number;
  /** Adds a sample: a reading of the database's clock, taken between two readings of the monotonic one. */
  observe(databaseMs: number, sentAt: number, receivedAt: number): void;
}

/** Milliseconds by which the best sample's round trip is counted longer each second, so that newer ones replace it. */
const AGEING_MS_PER_SECOND = 0.5;

/**
 * Creates the clock. `monotonic` returns milliseconds that never go back (default `performance.now`). As in RFC 5905 §10,
 * the recent sample with the shortest round trip wins: its error is at most half of that trip.
 */
export function createDatabaseClock(monotonic: () => number = () => performance.now()): DatabaseClock {
  let offset = 0;
  let bestTrip = Number.POSITIVE_INFINITY;
  let sampledAt = 0;
  let latest = 0;
  return {
    now() {
      latest = Math.max(latest, Math.floor(monotonic() + offset));
      return latest;
    },
    observe(databaseMs, sentAt, receivedAt) {
      const trip = receivedAt - sentAt;
      const aged = bestTrip + ((receivedAt - sampledAt) / 1000) * AGEING_MS_PER_SECOND;
      if (trip > aged) return;
      offset = databaseMs - (sentAt + receivedAt) / 2;
      bestTrip = trip;
      sampledAt = receivedAt;
    },
  };
}

async function measureClock(database: Database, clock: DatabaseClock): Promise<void> {
  const sentAt = performance.now();
  const { rows } = await database.pool.query<{ now: number }>(readClock);
  const [row] = rows;
  if (row !== undefined) clock.observe(row.now, sentAt, performance.now());
}

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
    this.#surroundings = surroundings;
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
      const state = await loadState(this.#database.pool, workspaceId);
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
