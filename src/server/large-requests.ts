import { setTimeout as delay, setImmediate } from "node:timers/promises";

/** Milliseconds of a step after which the loop rests as long as the step took. */
const MIN_STEP_MS = 2;
/** Longest rest after a step, milliseconds. */
const MAX_REST_MS = 10;

/**
 * The turns of large requests. Decoding, checking and sealing one takes steps of milliseconds each, so that the steps of all large
 * requests come one after the other, workspace by workspace, and leave half of the time to everything else.
 */
export class LargeRequests {
  /** Steps that wait, by workspace. The workspace whose turn it is comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isRunning = false;

  /** Resolves when the next step on a request of a workspace may be taken. It MUST be taken at once. */
  turn(workspaceId: string): Promise<void> {
    return new Promise((resolve) => {
      const steps = this.#waiting.get(workspaceId) ?? [];
      steps.push(resolve);
      this.#waiting.set(workspaceId, steps);
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    await setImmediate();
    for (let step = this.#next(); step !== undefined; step = this.#next()) {
      const startedAt = performance.now();
      step();
      // The step is over, and all that had arrived meanwhile is served.
      await setImmediate();
      const tookMs = performance.now() - startedAt;
      if (tookMs >= MIN_STEP_MS) await delay(Math.min(tookMs, MAX_REST_MS));
    }
    this.#isRunning = false;
  }

  #next(): (() => void) | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [workspaceId, steps] = first;
    const step = steps.shift();
    this.#waiting.delete(workspaceId);
    if (steps.length > 0) this.#waiting.set(workspaceId, steps);
    return step;
  }
}
