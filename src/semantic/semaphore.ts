/** Bounds of a semaphore. */
export interface SemaphoreOptions {
  /** Maximum number of calls in flight. */
  readonly permits: number;
  /** Maximum number of calls that wait for a permit. */
  readonly maxWaiting: number;
}

/** Sixteen at once is one batch of a small model server; four times as many can wait within the deadline. */
export const DEFAULT_SEMAPHORE: SemaphoreOptions = { permits: 16, maxWaiting: 64 };

/** Counting semaphore with a bounded first-in-first-out queue whose waiters can give up. */
export class Semaphore {
  readonly #options: SemaphoreOptions;
  readonly #waiting = new Set<(isAcquired: boolean) => void>();
  #acquired = 0;

  constructor(options: SemaphoreOptions) {
    this.#options = options;
  }

  /** Resolves with true once a permit is acquired, with false if the queue is full or the signal aborts first. */
  acquire(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    if (this.#acquired < this.#options.permits) {
      this.#acquired += 1;
      return Promise.resolve(true);
    }
    return this.#waiting.size < this.#options.maxWaiting ? this.#wait(signal) : Promise.resolve(false);
  }

  /** Releases a permit. MUST be called once for every `acquire` that resolved with true. */
  release(): void {
    const [next] = this.#waiting;
    // A permit that is handed on is never free in between, so that nobody overtakes a waiter.
    if (next === undefined) this.#acquired -= 1;
    else next(true);
  }

  #wait(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const giveUp = (): void => settle(false);
      const settle = (isAcquired: boolean): void => {
        this.#waiting.delete(settle);
        signal.removeEventListener("abort", giveUp);
        resolve(isAcquired);
      };
      this.#waiting.add(settle);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }
}
