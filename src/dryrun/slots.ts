import { Semaphore, type SemaphoreCaller } from "../async/semaphore.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/**
 * Semaphore for calls of one kind, which rejects with OVERLOADED. Calls that wait are served in order of arrival, keys in turn.
 */
export class Slots {
  readonly #semaphore: Semaphore;
  readonly #maxWaiting: number;

  constructor({ maxTaken, maxWaiting }: { readonly maxTaken: number; readonly maxWaiting: number }) {
    this.#semaphore = new Semaphore({ permits: maxTaken, maxWaiting });
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Waits for a slot and returns the function that releases it. Rejects with OVERLOADED when too many of the key wait, and with
   * the signal's reason once it aborts.
   */
  async acquire(caller?: SemaphoreCaller): Promise<() => void> {
    const release = await this.#semaphore.acquire(caller);
    if (release !== undefined) return release;
    caller?.signal?.throwIfAborted();
    const waiting = String(this.#maxWaiting);
    const message = `${waiting} calls of this kind are waiting; retry with back-off`;
    throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { waiting });
  }

  /** Runs work in a slot. Rejects as `acquire` and the work do. */
  async run<T>(work: () => Promise<T>, caller?: SemaphoreCaller): Promise<T> {
    const release = await this.acquire(caller);
    try {
      return await work();
    } finally {
      release();
    }
  }
}
