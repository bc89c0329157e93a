import cluster, { type Worker } from "node:cluster";
import { constants } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { Registry } from "prom-client";
import { type BackOffOptions, pauseAfter } from "./async/back-off.ts";
import type { Config } from "./config.ts";
import { type ControlPlaneOptions, createControlPlane } from "./control-plane.ts";
import { MetricsCollector } from "./metrics/collector.ts";
import { MetricsReporter } from "./metrics/reporter.ts";
import { type FirstStart, prepareFirstStart } from "./registry/first-start.ts";
import { measureProcess } from "./server/process-metrics.ts";
import type { Addresses } from "./server/servers.ts";
import { DEFAULT_MAX_CONNECTIONS, startEmbeddedPostgres } from "./store/embedded-postgres.ts";
import type { TraceSettings } from "./tracing/settings.ts";
import { versionOf } from "./version.ts";

/** Inputs of a service that runs until a signal stops it. */
export interface Serving {
  readonly config: Config;
  readonly log: Logger;
  /** How to trace; undefined to trace nothing. */
  readonly traces: TraceSettings | undefined;
  /** Resolves with the name of the stop signal. */
  readonly stop: Promise<string>;
  /** Called once the service listens. */
  readonly announce: (addresses: Addresses, first: FirstStart) => void;
}

/** Time in which repeated signals count as one, milliseconds: npm forwards a Ctrl-C that the terminal sent already. */
const ECHO_MS = 500;
/** Connections of a process beside its pool: wake-ups, migrations and a reserve. */
const CONNECTIONS_BESIDE_POOL = 5;
/** Connections for people and tools that look at the database. */
const SPARE_CONNECTIONS = 20;
/** Time that a worker gets to stop after retiring and draining, milliseconds; then it is killed. */
const STOP_MARGIN_MS = 10_000;
/** Pauses before an ended worker is replaced; they grow while workers end before they serve. */
const BACK_OFF: BackOffOptions = { firstMs: 200, maxMs: 5_000 };
/** Consecutive failed starts, of any worker, after which the service gives up. */
const MAX_FAILED_STARTS = 5;

/**
 * Resolves with the first signal. A second one ends the process at once, with the exit code that shells report for a process
 * killed by it.
 */
export function listenForStop(signals: readonly NodeJS.Signals[]): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let stoppedAt: number | undefined;
    const onSignal = (signal: NodeJS.Signals): void => {
      stoppedAt ??= performance.now();
      if (performance.now() - stoppedAt > ECHO_MS) process.exit(128 + constants.signals[signal]);
      resolve(signal);
    };
    for (const signal of signals) process.on(signal, onSignal);
  });
}

type DatabaseUrls = Pick<ControlPlaneOptions, "databaseUrl" | "databaseOwnerUrl">;

/** Returns the URLs of the configured database, or starts the embedded one, which stops with `started`. */
async function openDatabaseUrls({ config, log }: Serving, started: AsyncDisposableStack): Promise<DatabaseUrls> {
  if (config.databaseUrl !== null) {
    return { databaseUrl: config.databaseUrl.reveal(), databaseOwnerUrl: config.databaseOwnerUrl?.reveal() };
  }
  const { dataDir, poolSize, workers } = config;
  const needed = workers * (poolSize + CONNECTIONS_BESIDE_POOL) + SPARE_CONNECTIONS;
  const maxConnections = Math.max(DEFAULT_MAX_CONNECTIONS, needed);
  const embedded = await startEmbeddedPostgres({ dataDir, log, maxConnections });
  started.defer(() => embedded.stop());
  return { databaseUrl: embedded.url, databaseOwnerUrl: embedded.ownerUrl };
}

/** Returns how a first start fills the database: on a PostgreSQL of its own a service generates no key and registers no agent. */
function firstStartOf({ adminKey, dataDir, databaseUrl }: Config) {
  const isEmbedded = databaseUrl === null;
  return { adminKey: adminKey?.reveal(), dataDir, mayGenerateKey: isEmbedded, hasExampleAgent: isEmbedded };
}

/** Serves in this process until the stop signal. Rejects if it cannot serve, after stopping whatever it had started. */
export async function serveAlone(serving: Serving): Promise<void> {
  const { config, log, stop, announce, traces } = serving;
  await using started = new AsyncDisposableStack();
  const urls = await openDatabaseUrls(serving, started);
  const controlPlane = await createControlPlane({ config, ...urls, log, traces });
  started.defer(() => controlPlane.close());
  const first = await prepareFirstStart({ ...controlPlane, ...firstStartOf(config), log });
  announce(await controlPlane.listen(), first);
  log.info({ signal: await stop, lame_duck_ms: config.lameDuckMs }, "stopping");
  await controlPlane.retire();
}

/** Message of a worker that serves, to the primary. */
interface Serves {
  readonly kind: "serving";
  readonly addresses: Addresses;
}

/**
 * Serves in `config.workers` processes, which share the ports through `node:cluster`, until the stop signal. Rejects if one
 * worker cannot start at first, or several in a row later, after stopping whatever it had started.
 */
export async function serveWithWorkers(serving: Serving): Promise<void> {
  const { config, log, stop, announce } = serving;
  await using started = new AsyncDisposableStack();
  const urls = await openDatabaseUrls(serving, started);
  const first = await prepare(serving, urls);
  const pool = new WorkerPool(config, urls.databaseUrl, log);
  started.defer(() => pool.stop());
  const serve = async (): Promise<void> => {
    announce(await pool.start(), first);
    await pool.broken;
  };
  const stopped = stop.then((signal) => log.info({ signal }, "stopping"));
  await Promise.race([stopped, serve()]);
}

/** Migrates the database and creates keys and workspace once, before any worker would. */
async function prepare({ config, log }: Serving, urls: DatabaseUrls): Promise<FirstStart> {
  const controlPlane = await createControlPlane({ config, ...urls, log });
  try {
    return await prepareFirstStart({ ...controlPlane, ...firstStartOf(config), log });
  } finally {
    await controlPlane.close();
  }
}

interface Slot {
  readonly number: number;
  readonly worker: Worker;
  isServing: boolean;
}

/** Starts a worker per slot, replaces ended workers with back-off, and stops all. */
class WorkerPool {
  /** Rejects when workers keep ending before they serve. Never resolves. */
  readonly broken: Promise<never>;
  readonly #config: Config;
  readonly #databaseUrl: string;
  readonly #log: Logger;
  readonly #slots = new Map<number, Slot>();
  readonly #started = Promise.withResolvers<Addresses>();
  readonly #broken = Promise.withResolvers<never>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  readonly #metrics: MetricsCollector;
  #hasStarted = false;
  #failedStarts = 0;

  constructor(config: Config, databaseUrl: string, log: Logger) {
    this.#config = config;
    this.#databaseUrl = databaseUrl;
    this.#log = log;
    const own = new Registry();
    measureProcess(own, versionOf());
    this.#metrics = new MetricsCollector(own);
    this.broken = this.#broken.promise;
    this.broken.catch(() => undefined);
  }

  /** Starts all workers. Resolves when each serves; rejects if one ends before. */
  start(): Promise<Addresses> {
    for (let number = 1; number <= this.#config.workers; number++) this.#fork(number);
    return this.#started.promise;
  }

  /** Drains every worker. Resolves when all have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { worker } of this.#slots.values()) worker.process.kill("SIGTERM");
    const timer = setTimeout(() => this.#kill(), this.#config.lameDuckMs + this.#config.drainMs + STOP_MARGIN_MS);
    if (this.#slots.size > 0) await this.#gone.promise;
    clearTimeout(timer);
  }

  #kill(): void {
    for (const { worker, number } of this.#slots.values()) {
      this.#log.error({ worker: number }, "a worker did not stop in time");
      worker.process.kill("SIGKILL");
    }
  }

  #fork(number: number): void {
    // JSON would turn NaN and infinite metrics into null.
    cluster.setupPrimary({ serialization: "advanced", args: [String(number)] });
    // The primary has migrated: no process that serves needs the owner's login.
    const worker = cluster.fork({
      DATABASE_URL: this.#databaseUrl,
      ACP_DATABASE_OWNER_URL: "",
      // Its default depends on whether the database is the embedded one.
      ACP_LAME_DUCK_MS: String(this.#config.lameDuckMs),
    });
    const slot: Slot = { number, worker, isServing: false };
    this.#slots.set(number, slot);
    this.#metrics.add(number, worker);
    worker.on("message", (message: Serves) => {
      if (message.kind === "serving") this.#onServing(slot, message.addresses);
    });
    worker.on("error", (error) => this.#log.error({ worker: number, err: error }, "a worker failed"));
    worker.once("exit", (code, signal) => this.#onExit(slot, signal ?? code));
  }

  #onServing(slot: Slot, addresses: Addresses): void {
    slot.isServing = true;
    this.#failedStarts = 0;
    this.#log.info({ worker: slot.number, workerPid: slot.worker.process.pid }, "a worker serves");
    const slots = [...this.#slots.values()];
    if (slots.length < this.#config.workers || slots.some(({ isServing }) => !isServing)) return;
    this.#hasStarted = true;
    this.#started.resolve(addresses);
  }

  #onExit({ number, worker, isServing }: Slot, ending: string | number): void {
    this.#slots.delete(number);
    if (this.#slots.size === 0) this.#gone.resolve();
    if (this.#stopping.signal.aborted) return;
    if (!isServing) this.#failedStarts += 1;
    this.#log.warn({ worker: number, workerPid: worker.process.pid, ending }, "a worker ended");
    const fault = new Error(`worker ${number} ended with ${ending} before it served`);
    if (!this.#hasStarted) this.#started.reject(fault);
    else if (this.#failedStarts >= MAX_FAILED_STARTS) this.#broken.reject(fault);
    else void this.#replace(number);
  }

  async #replace(number: number): Promise<void> {
    await delay(pauseAfter(BACK_OFF, this.#failedStarts), undefined, this.#stopping).catch(() => undefined);
    if (!this.#stopping.signal.aborted) this.#fork(number);
  }
}

/**
 * Serves as a worker until a signal. Rejects if it cannot serve, after stopping whatever it had started. Node ends the process
 * when the primary is gone.
 */
export async function serveAsWorker({ config, log, stop, traces }: Omit<Serving, "announce">): Promise<void> {
  await using started = new AsyncDisposableStack();
  // The channel to the primary would keep the process alive.
  started.defer(() => void (process.connected && cluster.worker?.disconnect()));
  const controlPlane = await createControlPlane({
    config,
    databaseUrl: config.databaseUrl?.reveal() ?? "",
    log,
    traces,
    // The number of the worker, which one that replaces it gets as well.
    keepsCheckpoints: process.argv[2] === "1",
    sharesPorts: true,
    metricsPage(own) {
      const reporter = new MetricsReporter(own);
      started.defer(() => reporter.close());
      return reporter;
    },
  });
  started.defer(() => controlPlane.close());
  const serves: Serves = { kind: "serving", addresses: await controlPlane.listen() };
  if (process.connected) process.send?.(serves);
  log.info({ signal: await stop, lame_duck_ms: config.lameDuckMs }, "stopping");
  await controlPlane.retire();
}
