import { setTimeout as delay } from "node:timers/promises";
import { Semaphore } from "../async/semaphore.ts";
import { type Holder, SharedPot } from "../async/shared-pot.ts";
import { nextTurn } from "../async/turns.ts";
import { overShare } from "../errors.ts";

/** Maximum bytes of a small request, which is served in one event-loop turn. */
export const SMALL_REQUEST = 65_536;
/** Minimum duration of a step, milliseconds, after which the loop rests as long as the step took. */
const MIN_STEP_MS = 2;
/** Longest rest after a step, milliseconds. */
const MAX_REST_MS = 10;

/** Steps that wait in a process, of which one workspace alone has half. */
const MAX_WAITING = 4_096;

/** Bytes of a request that cost as much as one value in it. */
const BYTES_OF_VALUE = 32;

/** Returns the size of a request that has so many values: many short ones cost as much as a long text. */
export function weightOf(bytes: number, values: number): number {
  return Math.max(bytes, values * BYTES_OF_VALUE);
}

/** The next step on a request. */
export interface RequestStep extends Holder {
  /** Size of the request, or its weight. */
  readonly bytes: number;
  /** Aborts when the request is cancelled. */
  readonly signal: AbortSignal;
}

/**
 * Queue for the large requests of a process, over every protocol. Decoding, checking and sealing a large request takes steps of
 * milliseconds each. The steps of all large requests run one after the other, with the workspaces in turn, and leave half of the
 * time to everything else.
 */
export class LargeRequests {
  readonly #steps = new Semaphore({ permits: 1 });
  readonly #waiting = new SharedPot({
    name: "large_requests",
    size: MAX_WAITING,
    unit: "waiting steps of requests above 64 KiB",
    advice: "send fewer large requests at once",
    retryAfterSeconds: 2,
    refuse: overShare,
  });

  /** Waits for the turn of a step on a large request; resolves at once for a small one. Rejects as `turn` does. */
  async giveWay({ bytes, signal, ...holder }: RequestStep): Promise<void> {
    if (bytes > SMALL_REQUEST) await this.turn(holder, signal);
  }

  /**
   * Resolves when the next step on a request may be taken. It MUST be taken at once. Once `signal` aborts, the step leaves the
   * queue and the promise rejects with the signal's reason. Rejects with OVERLOADED if the workspace or agent has its share of
   * waiting steps.
   */
  async turn(holder: Holder, signal?: AbortSignal): Promise<void> {
    // The first step waits as well, so that calls that arrived with it are served first.
    if (this.#steps.isIdle) void this.#steps.run(nextTurn);
    const release = await this.#waiting.during(holder, (waiting) => {
      waiting.add(1);
      return this.#steps.acquire({ key: holder.workspaceId, signal });
    });
    if (release === undefined) throw signal?.reason;
    void restAfterStep().then(release);
  }
}

/** Resolves after the step that begins now and after an equally long rest of the event loop. */
async function restAfterStep(): Promise<void> {
  const startedAt = performance.now();
  // Now the step is over, and everything that arrived meanwhile has been served.
  await nextTurn();
  const tookMs = performance.now() - startedAt;
  if (tookMs >= MIN_STEP_MS) await delay(Math.min(tookMs, MAX_REST_MS));
}
