import { setImmediate } from "node:timers/promises";

/** Milliseconds of work after which the event loop gets a turn. */
const DEFAULT_TURN_MS = 4;

/** Gives the event loop a turn. Resolves after the requests, timers and replies that are ready by now have been served. */
export function nextTurn(): Promise<void> {
  return setImmediate();
}

/** Cuts long work into turns of the event loop, so that other requests are served in between. */
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
    await nextTurn();
    this.#startedAt = performance.now();
  }
}
