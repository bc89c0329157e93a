/** Bounds of a semaphore. */
export interface SemaphoreOptions {
  /** Maximum number of permits in use. */
  readonly permits: number;
  /** Maximum number of permits that one key holds, besides the share that every key has. Default: unbounded. */
  readonly maxPerKey?: number | undefined;
  /** Maximum number of callers of one key that wait. Default: unbounded. */
  readonly maxWaiting?: number | undefined;
}

/** A caller that asks for a permit. */
export interface SemaphoreCaller {
  /** Party that the caller belongs to, such as a workspace; parties take turns. Default: one for all callers. */
  readonly key?: string | undefined;
  /** Ends the wait for a permit when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

/** Releases a permit. MUST be called exactly once. */
export type Release = () => void;

type Waiter = (release: Release) => void;

/**
 * Counting semaphore that is fair between keys: they take turns, and each key's callers go first in, first out. A key holds at most
 * as many permits as are free then, as in a `SharedPot`, but one in any case. Callers without a key form one queue.
 */
export class Semaphore {
  readonly #permits: number;
  readonly #maxPerKey: number;
  readonly #maxWaiting: number;
  readonly #heldByKey = new Map<string, number>();
  /** In the order of turns: a key whose waiter got a permit goes to the end. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  #held = 0;

  constructor({
    permits,
    maxPerKey = Number.POSITIVE_INFINITY,
    maxWaiting = Number.POSITIVE_INFINITY,
  }: SemaphoreOptions) {
    this.#permits = permits;
    this.#maxPerKey = maxPerKey;
    this.#maxWaiting = maxWaiting;
  }

  /** True while no permit is in use. */
  get isIdle(): boolean {
    return this.#held === 0;
  }

  /** Resolves once a permit is acquired; with undefined if too many callers of the key wait, or once the signal aborts. */
  acquire({ key = "", signal }: SemaphoreCaller = {}): Promise<Release | undefined> {
    if (signal?.aborted) return Promise.resolve(undefined);
    const queue = this.#waiting.get(key) ?? new Set();
    if (queue.size === 0 && this.#mayEnter(key)) return Promise.resolve(this.#enter(key));
    if (queue.size >= this.#maxWaiting) return Promise.resolve(undefined);
    this.#waiting.set(key, queue);
    return new Promise((resolve) => {
      const admit: Waiter = (release) => {
        signal?.removeEventListener("abort", giveUp);
        resolve(release);
      };
      const giveUp = (): void => {
        queue.delete(admit);
        if (queue.size === 0) this.#waiting.delete(key);
        resolve(undefined);
      };
      queue.add(admit);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** Runs `work` with a permit. Resolves with undefined, without running it, where `acquire` does. */
  async run<T>(work: () => Promise<T>, caller?: SemaphoreCaller): Promise<T | undefined> {
    const release = await this.acquire(caller);
    if (release === undefined) return undefined;
    try {
      return await work();
    } finally {
      release();
    }
  }

  #mayEnter(key: string): boolean {
    const free = this.#permits - this.#held;
    const next = (this.#heldByKey.get(key) ?? 0) + 1;
    return free > 0 && next <= this.#maxPerKey && next <= Math.max(1, free - 1);
  }

  #enter(key: string): Release {
    this.#count(key, 1);
    return () => {
      this.#count(key, -1);
      this.#admitWaiting();
    };
  }

  #count(key: string, change: 1 | -1): void {
    this.#held += change;
    const held = (this.#heldByKey.get(key) ?? 0) + change;
    if (held === 0) this.#heldByKey.delete(key);
    else this.#heldByKey.set(key, held);
  }

  /** Admits waiters while permits are free, before any later caller can take one. */
  #admitWaiting(): void {
    for (const [key, queue] of this.#waiting) {
      if (this.#held >= this.#permits) return;
      const [next] = queue;
      if (next === undefined || !this.#mayEnter(key)) continue;
      queue.delete(next);
      this.#waiting.delete(key);
      if (queue.size > 0) this.#waiting.set(key, queue);
      next(this.#enter(key));
    }
  }
}
