type Waiter = (isAdmitted: boolean) => void;

/**
 * Semaphore that is fair between keys: they take turns, each key's waiters go first in, first out, and one key holds at
 * most half of the permits.
 */
export class FairSemaphore {
  readonly #permits: number;
  readonly #maxPerKey: number;
  readonly #heldByKey = new Map<string, number>();
  // In the order of turns: a key that got a permit goes to the end.
  readonly #waiting = new Map<string, Set<Waiter>>();
  #held = 0;

  constructor(permits: number) {
    this.#permits = permits;
    this.#maxPerKey = Math.max(1, Math.floor(permits / 2));
  }

  /** Runs `work` with a permit. Returns undefined, without running it, if the signal aborts before. */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.#acquire(key, signal))) return undefined;
    try {
      return await work();
    } finally {
      this.#count(key, -1);
      this.#admitWaiting();
    }
  }

  #acquire(key: string, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    if (this.#mayEnter(key) && !this.#waiting.has(key)) {
      this.#count(key, 1);
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const queue = this.#waiting.get(key) ?? new Set();
      this.#waiting.set(key, queue);
      const cancel = (): void => settle(false);
      const settle: Waiter = (isAdmitted) => {
        signal.removeEventListener("abort", cancel);
        queue.delete(settle);
        if (queue.size === 0 && this.#waiting.get(key) === queue) this.#waiting.delete(key);
        resolve(isAdmitted);
      };
      queue.add(settle);
      signal.addEventListener("abort", cancel, { once: true });
    });
  }

  #mayEnter(key: string): boolean {
    return this.#held < this.#permits && (this.#heldByKey.get(key) ?? 0) < this.#maxPerKey;
  }

  #count(key: string, change: 1 | -1): void {
    this.#held += change;
    const held = (this.#heldByKey.get(key) ?? 0) + change;
    if (held === 0) this.#heldByKey.delete(key);
    else this.#heldByKey.set(key, held);
  }

  #admitWaiting(): void {
    for (const [key, queue] of [...this.#waiting]) {
      if (this.#held >= this.#permits) return;
      const [next] = queue;
      if (next === undefined || !this.#mayEnter(key)) continue;
      queue.delete(next);
      this.#waiting.delete(key);
      if (queue.size > 0) this.#waiting.set(key, queue);
      this.#count(key, 1);
      next(true);
    }
  }
}
