import cluster, { type Worker } from "node:cluster";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { ToPrimary, ToWorker } from "./messages.ts";
import { type Counted, createMetricsExchange } from "./metrics-exchange.ts";
import { createPorts, type Ports, type Receiver } from "./ports.ts";

/** How a crew is made. */
export interface CrewOptions {
  readonly size: number;
  /** What the workers serve. MUST be ready for them: migrated, with keys. */
  readonly databaseUrl: string;
  /** Milliseconds after which a worker that was told to stop is killed. */
  readonly stopMs: number;
  readonly log: Logger;
}

/** Workers that serve what comes to the ports of this process. */
export interface Crew {
  readonly ports: Ports;
  /** Starts all. Resolves when each serves; rejects when one of them ends before. */
  start(): Promise<void>;
  /** Rejects when workers end again and again before they serve. Never resolves. */
  readonly broken: Promise<never>;
  /** Has every worker drain, and resolves when all are gone. */
  stop(signal: string): Promise<void>;
}

/** Milliseconds before a worker is started in place of one that ended; doubles while they end before they serve. */
const FIRST_PAUSE_MS = 100;
const MOST_PAUSE_MS = 5_000;
/** Starts in a row that fail, of whichever worker, before the crew is given up. */
const MOST_FAILED_STARTS = 5;

interface Mate extends Counted, Receiver {
  readonly worker: Worker;
  phase: "starting" | "serving" | "draining";
  /** Open connections, those on their way included. */
  connections: number;
}

/** Creates a crew. */
export function createCrew(options: CrewOptions): Crew {
  return new WorkerCrew(options);
}

class WorkerCrew implements Crew {
  readonly ports: Ports;
  readonly #options: CrewOptions;
  readonly #mates = new Map<number, Mate>();
  readonly #exchange = createMetricsExchange();
  readonly #started = Promise.withResolvers<void>();
  readonly #broken = Promise.withResolvers<never>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #stopping = new AbortController();
  #hasStarted = false;
  #failedStarts = 0;

  constructor(options: CrewOptions) {
    this.#options = options;
    this.ports = createPorts(() => this.#next());
    this.#broken.promise.catch(() => undefined);
  }

  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  start(): Promise<void> {
    // As JSON, figures that are not finite would become null.
    cluster.setupPrimary({ serialization: "advanced" });
    for (let slot = 1; slot <= this.#options.size; slot++) this.#fork(slot);
    return this.#started.promise;
  }

  async stop(signal: string): Promise<void> {
    this.#stopping.abort();
    for (const { send } of this.#mates.values()) send({ kind: "stop", signal });
    const timer = setTimeout(() => this.#kill(), this.#options.stopMs);
    if (this.#mates.size > 0) await this.#gone.promise;
    clearTimeout(timer);
    this.ports.close();
  }

  #kill(): void {
    for (const { worker, slot } of this.#mates.values()) {
      this.#options.log.error({ worker: slot }, "a worker did not stop in time");
      worker.process.kill("SIGKILL");
    }
  }

  /** The one with the fewest connections. One that drains answers that it does, which is better than no answer. */
  #next(): Mate | undefined {
    const fewest = (a: Mate, b: Mate): number => a.connections - b.connections;
    const [serving] = this.#of("serving").sort(fewest);
    return serving ?? this.#of("draining").sort(fewest)[0];
  }

  #of(phase: Mate["phase"]): Mate[] {
    return [...this.#mates.values()].filter((mate) => mate.phase === phase);
  }

  #fork(slot: number): void {
    const worker = cluster.fork();
    const hand = (message: ToWorker, socket: Socket): void => {
      mate.connections += 1;
      // A worker that is going down has closed its channel; its exit says the rest, and connections go to another.
      if (worker.isConnected()) worker.send(message, socket, { keepOpen: true }, () => undefined);
    };
    const send = (message: ToWorker): void => void (worker.isConnected() && worker.send(message, () => undefined));
    const mate: Mate = { slot, worker, send, hand, phase: "starting", connections: 0 };
    this.#mates.set(slot, mate);
    worker.on("message", (message: ToPrimary) => this.#onMessage(mate, message));
    worker.once("error", (error) => this.#options.log.error({ worker: slot, err: error }, "a worker failed"));
    worker.once("exit", (code, signal) => this.#onExit(mate, signal ?? code));
    send({ kind: "start", databaseUrl: this.#options.databaseUrl });
  }

  #onMessage(mate: Mate, message: ToPrimary): void {
    if (message.kind === "taken") this.ports.taken(message.id);
    else if (message.kind === "closed") mate.connections -= 1;
    else if (message.kind === "scrape") this.#exchange.scrape(mate, message.id, this.#of("serving"));
    else if (message.kind === "figures") this.#exchange.told(mate, message.id, message.figures);
    else if (message.kind === "draining") mate.phase = "draining";
    else this.#onServing(mate);
  }

  #onServing(mate: Mate): void {
    mate.phase = "serving";
    this.#failedStarts = 0;
    this.#options.log.info({ worker: mate.slot, workerPid: mate.worker.process.pid }, "a worker serves");
    this.ports.retry();
    if (this.#of("starting").length > 0) return;
    this.#hasStarted = true;
    this.#started.resolve();
  }

  #onExit(mate: Mate, ending: string | number): void {
    const { slot, phase, worker } = mate;
    this.#mates.delete(slot);
    this.ports.lost(mate);
    if (this.#mates.size === 0) this.#gone.resolve();
    if (this.#stopping.signal.aborted) return;
    if (phase === "starting") this.#failedStarts += 1;
    const fault = new Error(`worker ${slot} ended with ${ending} before it served`);
    this.#options.log.warn({ worker: slot, workerPid: worker.process.pid, ending }, "a worker ended");
    if (!this.#hasStarted) this.#started.reject(fault);
    else if (this.#failedStarts >= MOST_FAILED_STARTS) this.#broken.reject(fault);
    else void this.#replace(slot);
  }

  async #replace(slot: number): Promise<void> {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failedStarts, MOST_PAUSE_MS);
    await delay(pauseMs, undefined, this.#stopping).catch(() => undefined);
    if (!this.#stopping.signal.aborted) this.#fork(slot);
  }
}
