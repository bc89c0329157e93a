import { Redis } from "ioredis";
import { Counter, type Registry } from "prom-client";
import type { History, MissingHistory } from "../state/counters/history.ts";
import { loadMirrored } from "./mirror-history.ts";
import type { MirrorSource } from "./mirror-source.ts";
import { createMirrorStore, type MirrorStore, type RedisCommands } from "./mirror-store.ts";
import { feedMirror, sweepMirror } from "./mirror-writer.ts";
import { createLinkState, type LinkLog, type LinkState } from "./redis-health.ts";

/** The end of a log that its mirror is to reach. */
export interface MirrorEnd {
  readonly workspaceId: string;
  /** The size of the log. */
  readonly seq: number;
  /** Milliseconds of the log that windows in force look at; 0 when there is none, and nothing is recorded then. */
  readonly keepMs: number;
}

/**
 * A copy in Redis of the decisions that windows look at, from which a process that starts loads them. Nobody waits for it
 * to be written, and nothing depends on its being there: see `mirror-scripts.ts` for how it is known to be complete.
 */
export interface Mirror {
  /** Loads a window exactly as the log has it; undefined when that is not known here. Never rejects, and is bounded in time. */
  load(workspaceId: string, missing: MissingHistory): Promise<History | undefined>;
  /** Has the mirror written up to the end of a log, soon. */
  follow(end: MirrorEnd): void;
  /** Writes no more. What is missing is written by whoever appends to the log next. */
  close(): Promise<void>;
}

/** What a mirror is built from. */
export interface MirrorOptions {
  /** A `redis://` or `rediss://` URL. */
  readonly url: string;
  readonly source: MirrorSource;
  readonly log: LinkLog;
  readonly metrics: Registry;
}

/** Milliseconds that a command may take. */
const COMMAND_MS = 500;
/** Milliseconds that loading a window may take before the log is read instead. */
const LOAD_MS = 1_500;
/** Milliseconds in which entries gather before they are written. */
const GATHER_MS = 50;
/** Milliseconds after a failure before anything is asked of Redis again, so that its trouble costs one wait and not many. */
const PAUSE_MS = 1_000;
/** Milliseconds between looks for agents that can be forgotten, for each workspace. */
const SWEEP_MS = 600_000;
/** Logs whose identity is remembered. */
const REMEMBERED_LOGS = 10_000;

function connect(url: string): Redis {
  return new Redis(url, {
    connectionName: "acp-mirror",
    // A command that cannot be sent now fails now: what it was to do is done by the log, or again later.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
    connectTimeout: 2_000,
    // A server that hangs is left, so that commands do not pile up on its connection.
    socketTimeout: 2 * COMMAND_MS,
    retryStrategy: (attempt) => Math.min(attempt * 100, PAUSE_MS),
  });
}

function commandsOf(redis: Redis, link: LinkState): RedisCommands {
  const answered = <T>(reply: Promise<T>): Promise<T> =>
    reply.catch((error: Error) => {
      link.down(error.message);
      throw error;
    });
  return {
    eval: (script, keys, args) => answered(redis.eval(script, keys.length, ...keys, ...args)),
    hmget: (key, ...fields) => answered(redis.hmget(key, ...fields)),
    hgetall: (key) => answered(redis.hgetall(key)),
  };
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}

/** Connects to Redis; does not wait for it. */
export function createMirror({ url, source, log, metrics }: MirrorOptions): Mirror {
  const redis = connect(url);
  const link = createLinkState("mirror", log, metrics);
  const commands = commandsOf(redis, link);
  const registers = [metrics];
  const loads = new Counter({
    name: "acp_mirror_loads_total",
    help: "Windows that were loaded, by whether the mirror was trusted.",
    labelNames: ["source"],
    registers,
  });
  const begun = new Counter({
    name: "acp_mirror_recordings_total",
    help: "Recordings that were begun: one for each log, and one more whenever Redis lost something.",
    registers,
  });
  const stores = new Map<string, Promise<MirrorStore>>();
  const ends = new Map<string, MirrorEnd>();
  const sweptAt = new Map<string, number>();
  let pausedUntil = 0;
  let timer: NodeJS.Timeout | undefined;
  let feeding: Promise<void> | undefined;
  let isClosed = false;

  const pause = (): void => {
    pausedUntil = performance.now() + PAUSE_MS;
  };
  redis.on("error", (error) => link.down(error.message));
  redis.on("ready", () => {
    pausedUntil = 0;
    link.up();
  });
  const isPaused = (): boolean => redis.status !== "ready" || performance.now() < pausedUntil;

  const storeOf = (workspaceId: string): Promise<MirrorStore> => {
    const known = stores.get(workspaceId);
    if (known !== undefined) return known;
    const opening = source.entries(workspaceId, 0, 1).then(([first]) => {
      if (first === undefined) throw new Error(`the log of \`${workspaceId}\` is empty`);
      return createMirrorStore(commands, workspaceId, first.leafHash);
    });
    if (stores.size >= REMEMBERED_LOGS) stores.clear();
    stores.set(workspaceId, opening);
    opening.catch(() => stores.delete(workspaceId));
    return opening;
  };

  const sweep = async (store: MirrorStore, { workspaceId, keepMs }: MirrorEnd): Promise<void> => {
    if (performance.now() - (sweptAt.get(workspaceId) ?? 0) < SWEEP_MS) return;
    sweptAt.set(workspaceId, performance.now());
    await sweepMirror(store, keepMs);
  };

  const feed = async (end: MirrorEnd): Promise<void> => {
    const store = await storeOf(end.workspaceId);
    const fed = await feedMirror(store, source, end);
    link.up();
    if (fed === "begun") begun.inc();
    if (fed === "more" && !ends.has(end.workspaceId)) ends.set(end.workspaceId, end);
    if (fed === "complete") await sweep(store, end);
  };

  const feedAll = async (): Promise<void> => {
    while (ends.size > 0 && !isClosed && !isPaused()) {
      for (const end of [...ends.values()]) {
        ends.delete(end.workspaceId);
        await feed(end).catch(() => {
          if (!ends.has(end.workspaceId)) ends.set(end.workspaceId, end);
          pause();
        });
        if (isClosed || isPaused()) break;
      }
    }
  };

  const schedule = (): void => {
    if (isClosed || timer !== undefined || feeding !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        feeding = feedAll().finally(() => {
          feeding = undefined;
          if (ends.size > 0) schedule();
        });
      },
      isPaused() ? PAUSE_MS : GATHER_MS,
    );
    timer.unref();
  };

  const load: Mirror["load"] = async (workspaceId, missing) => {
    if (isPaused()) return undefined;
    try {
      const store = await storeOf(workspaceId);
      const history = await within(LOAD_MS, loadMirrored(store, source, workspaceId, missing));
      link.up();
      return history;
    } catch {
      pause();
      return undefined;
    }
  };

  return {
    async load(workspaceId, missing) {
      const history = await load(workspaceId, missing);
      loads.inc({ source: history?.source ?? "decision_log" });
      return history;
    },
    follow(end) {
      if (end.keepMs === 0) return;
      ends.set(end.workspaceId, end);
      schedule();
    },
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await feeding;
      redis.disconnect();
    },
  };
}
