import { Semaphore } from "../async/semaphore.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Lets a bounded number of calls of one kind go on at once; the others wait in the order of their arrival. */
export class Slots {
  readonly #semaphore: Semaphore;
  readonly #maxWaiting: number;

  constructor({ maxTaken, maxWaiting }: { readonly maxTaken: number; readonly maxWaiting: number }) {
    this.#semaphore = new Semaphore({ permits: maxTaken, maxWaiting });
    this.#maxWaiting = maxWaiting;
  }

  /** Waits for a slot and returns the function that gives it back. Rejects with OVERLOADED when too many wait. */
  async acquire(): Promise<() => void> {
    const release = await this.#semaphore.acquire();
    if (release !== undefined) return release;
    const waiting = String(this.#maxWaiting);
    const message = `${waiting} calls of this kind are waiting; retry with back-off`;
    throw new ControlPlaneError(ErrorReason.OVERLOADED, message, { waiting });
  }

  /** Runs work in a slot. Rejects as `acquire` and the work do. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire();
    try {
      return await work();
    } finally {
      release();
    }
  }
}
