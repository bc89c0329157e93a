import { setTimeout as delay, setImmediate } from "node:timers/promises";

/** Bytes up to which a request is served in one turn of the event loop. */
export const SMALL_REQUEST = 65_536;
/** Milliseconds of a step after which the loop rests as long as the step took. */
const MIN_STEP_MS = 2;
/** Longest rest after a step, milliseconds. */
const MAX_REST_MS = 10;

/** The next step on a request. */
export interface RequestStep {
  readonly workspaceId: string;
  /** Size of what the step is about. */
  readonly bytes: number;
  /** Aborts when the request is given up. */
  readonly signal: AbortSignal;
}

/**
 * The turns of large requests of a process, whichever way they come in. Decoding, checking and sealing one takes steps of
 * milliseconds each, so that the steps of all large requests come one after the other, workspace by workspace, and leave half of the
 * time to everything else.
 */
export class LargeRequests {
  /** Steps that wait, by workspace. The workspace whose turn it is comes first. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #isRunning = false;

  /** Waits for the turn of a step on a large request; resolves at once for a small one. Rejects as `turn` does. */
  async giveWay({ workspaceId, bytes, signal }: RequestStep): Promise<void> {
    if (bytes > SMALL_REQUEST) await this.turn(workspaceId, signal);
  }

  /**
   * Resolves when the next step on a request of a workspace may be taken. It MUST be taken at once. Once `signal` aborts, the step
   * leaves the queue and the promise rejects with the signal's reason.
   */
  turn(workspaceId: string, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const steps = this.#waiting.get(workspaceId) ?? new Set();
      const leave = (): void => {
        steps.delete(step);
        if (steps.size === 0 && this.#waiting.get(workspaceId) === steps) this.#waiting.delete(workspaceId);
        reject(signal?.reason);
      };
      const step = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      steps.add(step);
      this.#waiting.set(workspaceId, steps);
      signal?.addEventListener("abort", leave, { once: true });
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
    const [step] = steps;
    if (step !== undefined) steps.delete(step);
    this.#waiting.delete(workspaceId);
    if (steps.size > 0) this.#waiting.set(workspaceId, steps);
    return step;
  }
}
