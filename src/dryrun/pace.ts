import { performance } from "node:perf_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { Turns } from "../async/turns.ts";

/** Milliseconds of the shortest rest, in which the work looks whether others are busy, and of the longest. */
const MIN_REST_MS = 1;
const MAX_REST_MS = 64;
/** Turns between rests while nobody else is busy. */
const QUIET_TURNS = 8;
/** Share of a rest in which the event loop ran for others, above which they are busy. */
const BUSY = 0.15;

/**
 * The pace of long work in the event loop of a service: it takes most of the time while nobody else does, and about a twentieth while
 * others are busy.
 */
export class Pace {
  readonly #turns = new Turns();
  #turnsTaken = 0;
  #restMs = MIN_REST_MS;
  /** The work's own pending read; never rejects. */
  #read: Promise<unknown> = Promise.resolve();

  /** Resolves when the work may go on; at once within a turn. */
  async turn(): Promise<void> {
    if (!this.#turns.isOver) return;
    this.#turnsTaken += 1;
    if (this.#restMs > MIN_REST_MS || this.#turnsTaken % QUIET_TURNS === 0) await this.#rest();
    await this.#turns.next();
  }

  /** Takes note of a read of the work itself, so that a rest which looks for others begins after it. Returns the read. */
  reads<T>(read: Promise<T>): Promise<T> {
    this.#read = read.catch(() => undefined);
    return read;
  }

  async #rest(): Promise<void> {
    await this.#read;
    const before = performance.eventLoopUtilization();
    await delay(this.#restMs);
    const { utilization } = performance.eventLoopUtilization(before);
    this.#restMs =
      utilization > BUSY ? Math.min(MAX_REST_MS, this.#restMs * 2) : Math.max(MIN_REST_MS, this.#restMs / 2);
  }
}
