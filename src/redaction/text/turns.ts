import { setImmediate } from "node:timers/promises";

/** Milliseconds of work after which the event loop has a turn. */
const TURN_MS = 3;

/** Cuts long work into turns of the event loop, so that other requests are served between them. */
export class Turns {
  #since = performance.now();

  /** Gives way if the work has taken its time since it gave way before. */
  async giveWay(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await setImmediate();
    this.#since = performance.now();
  }
}
