import { setImmediate } from "node:timers/promises";

/** Milliseconds of work after which the event loop gets a turn. */
const DEFAULT_TURN_MS = 4;

/** Gives the event loop a turn. Resolves after the requests, timers and replies that are ready by now have been served. */
export function nextTurn(): Promise<void> {
  return setImmediate();
}

/** Queue of long work: the event loop goes on with one piece of it in each turn, however much of it waits. */
class WorkQueue {
  readonly #waiting: (() => void)[] = [];

  /** Resolves in a later turn of the event loop, in which nothing else of the queue goes on. */
  turn(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#waiting.push(resolve) === 1) void this.#serve();
    return promise;
  }

  async #serve(): Promise<void> {
    while (this.#waiting.length > 0) {
      await nextTurn();
      this.#waiting.shift()?.();
    }
  }
}

// One for the process, as the event loop is.
const queue = new WorkQueue();

/** Cuts long work into turns of the event loop, so that other requests are served in between. All such work takes turns. */
export class Turns {
  readonly #turnMs: number;
  #startedAt = performance.now();

  /** `turnMs`: milliseconds of work in one turn. */
  constructor(turnMs = DEFAULT_TURN_MS) {
    this.#turnMs = turnMs;
  }

  /** True once the work has used up its turn. */
  get isOver(): boolean {
    return performance.now() - this.#startedAt >= this.#turnMs;
  }

  /** Gives the event loop a turn if the work has used up its own. */
  async giveWay(): Promise<void> {
    if (this.isOver) await this.next();
  }

  /** Gives the event loop a turn, and begins the work's next one after it. */
  async next(): Promise<void> {
    await queue.turn();
    this.#startedAt = performance.now();
  }
}
