import { Redis } from "ioredis";
import { LRUCache } from "lru-cache";
import { Counter, type Registry } from "prom-client";
import type { History, MissingHistory } from "../state/counters/log-history.ts";
import { loadMirrored } from "./mirror-history.ts";
import { createMirrorStore, type MirrorSource, type MirrorStore, type RedisCommands } from "./mirror-store.ts";
import { sweepMirror, writeMirror } from "./mirror-writer.ts";
import { createRedisHealth, type RedisHealth, type RedisLog } from "./redis-health.ts";

/** The end of a log that its mirror is to reach. */
export interface MirrorEnd {
  readonly workspaceId: string;
  /** The size of the log. */
  readonly seq: number;
  /** Milliseconds of the log that windows in force look at; 0 when there is none, and nothing is recorded then. */
  readonly keepMs: number;
}

/** Connection, source and surroundings of a mirror. */
export interface MirrorOptions {
  /** A `redis://` or `rediss://` URL. */
  readonly url: string;
  readonly source: MirrorSource;
  readonly log: RedisLog;
  readonly metrics: Registry;
}

/** Milliseconds that a command may take. */
const COMMAND_MS = 500;
/** Milliseconds that loading a window may take before the log is read instead. */
const LOAD_MS = 1_500;
/** Milliseconds in which entries gather before they are written. */
const GATHER_MS = 50;
/** Milliseconds of back-off after a failure, so that trouble with Redis costs one wait and not many. */
const BACK_OFF_MS = 1_000;
/** Milliseconds between looks for agents that can be forgotten, for each workspace. */
const SWEEP_MS = 600_000;
/** Maximum number of logs whose store is cached. */
const MAX_STORES = 10_000;

/**
 * A copy in Redis of the decisions that windows look at, from which a process that starts loads them. Writing it delays no
 * decision, and nothing depends on it: `scripts.ts` says how it is known to be complete.
 */
export class Mirror {
  readonly #source: MirrorSource;
  readonly #redis: Redis;
  readonly #health: RedisHealth;
  readonly #commands: RedisCommands;
  readonly #loads: Counter<"source">;
  readonly #recordings: Counter;
  readonly #stores = new LRUCache<string, Promise<MirrorStore>>({ max: MAX_STORES });
  /** The ends that are still to be reached, by workspace. */
  readonly #ends = new Map<string, MirrorEnd>();
  readonly #sweptAt = new Map<string, number>();
  #backOffUntil = 0;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #isClosed = false;

  /** Connects to Redis; does not wait for it. */
  constructor({ url, source, log, metrics }: MirrorOptions) {
    this.#source = source;
    this.#redis = connect(url);
    this.#health = createRedisHealth("mirror", log, metrics);
    this.#commands = commandsOver(this.#redis, this.#health);
    this.#redis.on("error", (error) => this.#health.down(error.message));
    this.#redis.on("ready", () => {
      this.#backOffUntil = 0;
      this.#health.up();
    });
    this.#loads = new Counter({
      name: "acp_mirror_loads_total",
      help: "Windows that were loaded, by whether the mirror was trusted.",
      labelNames: ["source"],
      registers: [metrics],
    });
    this.#recordings = new Counter({
      name: "acp_mirror_recordings_total",
      help: "Recordings that were begun: one for each log, and one more whenever Redis lost something.",
      registers: [metrics],
    });
  }

  /** Loads a window exactly as the log has it; undefined if the mirror cannot. Never rejects; takes bounded time. */
  async load(workspaceId: string, missing: MissingHistory): Promise<History | undefined> {
    const history = this.#isBackingOff() ? undefined : await this.#loadOrBackOff(workspaceId, missing);
    this.#loads.inc({ source: history?.source ?? "decision_log" });
    return history;
  }

  /** Schedules writing the mirror up to the end of a log. */
  follow(end: MirrorEnd): void {
    if (end.keepMs === 0) return;
    this.#ends.set(end.workspaceId, end);
    this.#schedule();
  }

  /** Stops writing. The next replica that appends to the log writes what is missing. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    this.#redis.disconnect();
  }

  async #loadOrBackOff(workspaceId: string, missing: MissingHistory): Promise<History | undefined> {
    try {
      const store = await this.#storeOf(workspaceId);
      const history = await within(LOAD_MS, loadMirrored(store, this.#source, workspaceId, missing));
      this.#health.up();
      return history;
    } catch {
      this.#backOff();
      return undefined;
    }
  }

  #isBackingOff(): boolean {
    return this.#redis.status !== "ready" || performance.now() < this.#backOffUntil;
  }

  #backOff(): void {
    this.#backOffUntil = performance.now() + BACK_OFF_MS;
  }

  #storeOf(workspaceId: string): Promise<MirrorStore> {
    const known = this.#stores.get(workspaceId);
    if (known !== undefined) return known;
    const opening = this.#source.entries(workspaceId, 0, 1).then(([first]) => {
      if (first === undefined) throw new Error(`the log of \`${workspaceId}\` is empty`);
      return createMirrorStore(this.#commands, workspaceId, first.leafHash);
    });
    this.#stores.set(workspaceId, opening);
    opening.catch(() => this.#stores.delete(workspaceId));
    return opening;
  }

  #schedule(): void {
    if (this.#isClosed || this.#timer !== undefined || this.#writing !== undefined) return;
    const writeAll = (): void => {
      this.#timer = undefined;
      this.#writing = this.#writeAll().finally(() => {
        this.#writing = undefined;
        if (this.#ends.size > 0) this.#schedule();
      });
    };
    this.#timer = setTimeout(writeAll, this.#isBackingOff() ? BACK_OFF_MS : GATHER_MS);
    this.#timer.unref();
  }

  async #writeAll(): Promise<void> {
    while (this.#ends.size > 0) {
      for (const end of [...this.#ends.values()]) {
        if (this.#isClosed || this.#isBackingOff()) return;
        this.#ends.delete(end.workspaceId);
        await this.#write(end).catch(() => {
          this.#retry(end);
          this.#backOff();
        });
      }
    }
  }

  async #write(end: MirrorEnd): Promise<void> {
    const store = await this.#storeOf(end.workspaceId);
    const result = await writeMirror(store, this.#source, end);
    this.#health.up();
    if (result === "begun") this.#recordings.inc();
    if (result === "more") this.#retry(end);
    if (result === "complete") await this.#sweep(store, end);
  }

  /** Schedules a failed write again, unless the log has a later end by now. */
  #retry(end: MirrorEnd): void {
    if (!this.#ends.has(end.workspaceId)) this.#ends.set(end.workspaceId, end);
  }

  async #sweep(store: MirrorStore, { workspaceId, keepMs }: MirrorEnd): Promise<void> {
    if (performance.now() - (this.#sweptAt.get(workspaceId) ?? 0) < SWEEP_MS) return;
    this.#sweptAt.set(workspaceId, performance.now());
    await sweepMirror(store, keepMs);
  }
}

function connect(url: string): Redis {
  return new Redis(url, {
    connectionName: "acp-mirror",
    // A command that cannot be sent now fails at once: the log does its work, or a later write repeats it.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
    connectTimeout: 2_000,
    // The connection to a server that hangs is closed, so that commands do not pile up on it.
    socketTimeout: 2 * COMMAND_MS,
    retryStrategy: (attempt) => Math.min(attempt * 100, BACK_OFF_MS),
  });
}

function commandsOver(redis: Redis, health: RedisHealth): RedisCommands {
  const watched = <T>(reply: Promise<T>): Promise<T> =>
    reply.catch((error: Error) => {
      health.down(error.message);
      throw error;
    });
  return {
    eval: (script, keys, args) => watched(redis.eval(script, keys.length, ...keys, ...args)),
    hmget: (key, ...fields) => watched(redis.hmget(key, ...fields)),
    hgetall: (key) => watched(redis.hgetall(key)),
  };
}

function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
