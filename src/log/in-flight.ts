import type { Pool, PoolClient } from "pg";
import type { Tracing } from "../tracing/tracing.ts";
import type { Batch } from "./batch.ts";
import { isTask, type Queue } from "./queue.ts";

/** A batch that was sent and is not yet known to be durable. */
export interface SentBatch {
  readonly batch: Batch;
  /** Settled result of the append, which never rejects: the database's time, or undefined for a batch that was overtaken. */
  readonly appended: Promise<PromiseSettledResult<number | undefined>>;
  /** Time of the monotonic clock, milliseconds. */
  readonly sentAtMs: number;
}

/** Maximum number of batches in flight: the database works on one, and finds the other when it is done. */
const SLOTS = 2;
/** Actions that a batch may always take, however few are open. */
const MIN_SHARE = 16;
/**
 * Longest time between the entries of two batches in flight, milliseconds. INVARIANT: less than the shortest window, which is one
 * second (`policy/compile/sequence.ts`). So no action leaves a window before it is durable, and a roll-back, which takes the newest
 * actions out of the windows, finds those that were put in.
 */
const MAX_AHEAD_MS = 500;

/**
 * The batches in flight: at most two, one behind the other on one connection, so that the database runs them in their order.
 */
export class InFlight {
  readonly #pool: Pool;
  readonly #sent: SentBatch[] = [];
  #connection: PoolClient | undefined;
  #onGathered: (() => void) | undefined;
  readonly #tracing: Tracing | undefined;

  constructor(pool: Pool, tracing: Tracing | undefined) {
    this.#pool = pool;
    this.#tracing = tracing;
  }

  get isEmpty(): boolean {
    return this.#sent.length === 0;
  }

  /**
   * Tests whether the actions at the front of the queue may leave as a second batch now. They wait until they are as many as
   * those in the batch in flight, because small batches cost more for each decision. Tasks and repeats wait for the end of the
   * batch in flight, and so does everything while others want the connection or once the batch is half a second old.
   */
  mayFollow(queue: Queue, nowMs: number): boolean {
    const [oldest] = this.#sent;
    const { first: next } = queue;
    if (oldest === undefined || this.#connection === undefined || this.#sent.length >= SLOTS) return false;
    if (next === undefined || isTask(next) || queue.isRepeat(next) || !this.#hasGathered(queue)) return false;
    // While others in this process wait for a connection, this one is given back as soon as possible.
    if (this.#pool.waitingCount > this.#pool.idleCount) return false;
    return nowMs - oldest.batch.atMs < MAX_AHEAD_MS;
  }

  /**
   * Returns the maximum size of the next batch: half of the open actions, so that the callers of one half send new requests
   * while the other half is decided.
   */
  share(queue: Queue): number {
    const open = this.#sent.reduce((sum, { batch }) => sum + batch.items.length, queue.length);
    return Math.max(MIN_SHARE, Math.floor(open / SLOTS));
  }

  /** Takes a connection for the next batches. */
  async connect(): Promise<void> {
    this.#connection = await this.#pool.connect();
  }

  /** Sends a decided batch on the connection that is held. */
  send(batch: Batch): void {
    if (this.#connection === undefined) throw new Error("no connection is held");
    const sentAtMs = performance.now();
    const appended = Promise.allSettled([batch.send(this.#connection, this.#tracing)]).then(([result]) => result);
    this.#sent.push({ batch, appended, sentAtMs });
  }

  /**
   * Waits until the oldest batch is over, or until enough actions have gathered in the queue to send another batch behind it. A
   * batch MUST be in flight.
   */
  async untilOverOrGathered(): Promise<"over" | "gathered"> {
    const [oldest] = this.#sent as [SentBatch];
    const over = oldest.appended.then(() => "over" as const);
    const gathered = new Promise<"gathered">((resolve) => {
      if (this.#sent.length < SLOTS) this.#onGathered = () => resolve("gathered");
    });
    const first = await Promise.race([over, gathered]);
    this.#onGathered = undefined;
    return first;
  }

  /** Wakes the loop if the queue has gathered enough. MUST be called after an action or a task was added. */
  noteWaiting(queue: Queue): void {
    if (this.#hasGathered(queue)) this.#onGathered?.();
  }

  /** Takes the oldest batch. */
  shift(): SentBatch {
    return this.#sent.shift() as SentBatch;
  }

  /** Takes all batches, the oldest first. */
  takeAll(): SentBatch[] {
    return this.#sent.splice(0);
  }

  /** Gives the connection back once nothing is in flight. */
  releaseIfIdle(): void {
    if (this.isEmpty) this.release();
  }

  /** Gives the connection back. After a fault its state is unknown, and it is closed. */
  release(isSuspect = false): void {
    const connection = this.#connection;
    this.#connection = undefined;
    connection?.release(isSuspect);
  }

  #hasGathered(queue: Queue): boolean {
    const [oldest] = this.#sent;
    return oldest === undefined || queue.length >= oldest.batch.items.length;
  }
}
