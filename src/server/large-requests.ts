import { setTimeout as delay } from "node:timers/promises";
import { Semaphore } from "../async/semaphore.ts";
import { nextTurn } from "../async/turns.ts";

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
  readonly #steps = new Semaphore({ permits: 1 });

  /** Waits for the turn of a step on a large request; resolves at once for a small one. Rejects as `turn` does. */
  async giveWay({ workspaceId, bytes, signal }: RequestStep): Promise<void> {
    if (bytes > SMALL_REQUEST) await this.turn(workspaceId, signal);
  }

  /**
   * Resolves when the next step on a request of a workspace may be taken. It MUST be taken at once. Once `signal` aborts, the step
   * leaves the queue and the promise rejects with the signal's reason.
   */
  async turn(workspaceId: string, signal?: AbortSignal): Promise<void> {
    // The first step waits as well: whatever arrived with it is served before.
    if (this.#steps.isIdle) void this.#steps.run(nextTurn);
    const release = await this.#steps.acquire({ key: workspaceId, signal });
    if (release === undefined) throw signal?.reason;
    void restAfterStep().then(release);
  }
}

/** Resolves after the step that now begins, and a rest of the event loop that is as long. */
async function restAfterStep(): Promise<void> {
  const startedAt = performance.now();
  // The step is over, and all that had arrived meanwhile is served.
  await nextTurn();
  const tookMs = performance.now() - startedAt;
  if (tookMs >= MIN_STEP_MS) await delay(Math.min(tookMs, MAX_REST_MS));
}
