import { loadState } from "../state/load.ts";
import type { Database } from "../store/database.ts";
import type { StoreLog } from "../store/migrate.ts";
import { readClock } from "../store/sql/read-clock.ts";
import { storeFault } from "../store/store-fault.ts";
import { createDatabaseClock, type DatabaseClock } from "./clock.ts";
import type { WakeUp } from "./events.ts";
import { type LogSurroundings, WorkspaceLog } from "./writer.ts";

/** The workspace logs of this replica. */
export interface WorkspaceLogs {
  /** The log of a workspace, loaded on first use. Rejects with WORKSPACE_NOT_FOUND. */
  of(workspaceId: string): WorkspaceLog | Promise<WorkspaceLog>;
  /** The database's clock, for timestamps outside a log. */
  readonly clock: DatabaseClock;
  /** Another replica appended: to one workspace up to a size, or unknown ones. */
  wakeUp(wakeUp: WakeUp | undefined): void;
  /** Finishes everything that was asked for, writes the trust snapshots and unloads every workspace. */
  close(): Promise<void>;
}

/** Time between trust snapshots of a workspace, milliseconds. A cold start reads the decisions since the last one. */
const SNAPSHOT_MS = 20_000;
/** Time after which an unused workspace without listeners leaves the memory, milliseconds. */
const IDLE_MS = 600_000;
/** Time between looks at the logs that have listeners, in case a wake-up was lost, milliseconds. */
const RECHECK_MS = 5_000;

async function measureClock(database: Database, clock: DatabaseClock): Promise<void> {
  const sentAt = performance.now();
  const { rows } = await database.pool.query<{ now: number }>(readClock);
  const [row] = rows;
  if (row !== undefined) clock.observe(row.now, sentAt, performance.now());
}

/** Creates the logs and measures the database's clock. */
export async function createWorkspaceLogs(
  database: Database,
  log: StoreLog,
  surroundings: LogSurroundings = {},
): Promise<WorkspaceLogs> {
  const { clock = createDatabaseClock() } = surroundings;
  await measureClock(database, clock);
  const loading = new Map<string, Promise<WorkspaceLog>>();
  const loaded = new Map<string, WorkspaceLog>();

  const load = async (workspaceId: string): Promise<WorkspaceLog> => {
    try {
      const state = await loadState(database.pool, workspaceId);
      const workspaceLog = new WorkspaceLog(database, state, clock, surroundings);
      loaded.set(workspaceId, workspaceLog);
      return workspaceLog;
    } catch (error) {
      throw storeFault(error);
    } finally {
      loading.delete(workspaceId);
    }
  };

  const evictIdle = (workspaceLog: WorkspaceLog): void => {
    const isIdle = workspaceLog.listeners === 0 && performance.now() - workspaceLog.usedAt > IDLE_MS;
    if (isIdle && workspaceLog.waiting === 0) loaded.delete(workspaceLog.workspaceId);
  };

  const saveAll = async (): Promise<void> => {
    for (const workspaceLog of loaded.values()) {
      // A snapshot is a shortcut for the next start: without it the start reads more of the log.
      await workspaceLog
        .saveTrust()
        .catch((error: Error) => log.warn({ reason: error.message }, "trust snapshot failed"));
      evictIdle(workspaceLog);
    }
  };

  let saving: Promise<void> | undefined;
  const snapshots = setInterval(() => {
    saving ??= saveAll().finally(() => {
      saving = undefined;
    });
  }, SNAPSHOT_MS);

  const wakeUp: WorkspaceLogs["wakeUp"] = (wakeUp) => {
    if (wakeUp !== undefined) return loaded.get(wakeUp.workspaceId)?.wakeUp(wakeUp);
    for (const workspaceLog of loaded.values()) {
      if (workspaceLog.listeners === 0) continue;
      workspaceLog.wakeUp({ seq: Number.POSITIVE_INFINITY, isChange: true });
    }
  };
  const rechecks = setInterval(() => {
    wakeUp(undefined);
    // A replica that only reads would otherwise drift from the database's clock.
    measureClock(database, clock).catch((error: Error) => log.warn({ reason: error.message }, "cannot read the clock"));
  }, RECHECK_MS);

  return {
    clock,
    wakeUp,
    of(workspaceId) {
      const known = loaded.get(workspaceId) ?? loading.get(workspaceId);
      if (known !== undefined) return known;
      const promise = load(workspaceId);
      loading.set(workspaceId, promise);
      return promise;
    },
    async close() {
      clearInterval(snapshots);
      clearInterval(rechecks);
      await saving;
      for (const workspaceLog of loaded.values()) await workspaceLog.idle();
      await saveAll();
      loaded.clear();
    },
  };
}
