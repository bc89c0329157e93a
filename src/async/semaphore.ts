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
  /** Member of the party, such as an agent; members take turns in the turns of their party. Default: one for all callers of a key. */
  readonly member?: string | undefined;
  /** Ends the wait for a permit when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

/** Releases a permit. MUST be called exactly once. */
export type Release = () => void;

type Waiter = (release: Release) => void;

/** Callers of one key that wait. */
class Waiters {
  /** In the order of turns: a member whose caller was taken goes to the end. */
  readonly #byMember = new Map<string, Set<Waiter>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(member: string, waiter: Waiter): void {
    const own = this.#byMember.get(member) ?? new Set();
    this.#byMember.set(member, own.add(waiter));
    this.#size += 1;
  }

  remove(member: string, waiter: Waiter): void {
    const own = this.#byMember.get(member);
    if (own?.delete(waiter) !== true) return;
    this.#size -= 1;
    if (own.size === 0) this.#byMember.delete(member);
  }

  /** Takes the caller whose turn it is. */
  take(): Waiter | undefined {
    const [turn] = this.#byMember;
    if (turn === undefined) return undefined;
    const [member, own] = turn;
    const [next] = own;
    if (next === undefined) return undefined;
    this.remove(member, next);
    if (this.#byMember.delete(member)) this.#byMember.set(member, own);
    return next;
  }
}

/**
 * Counting semaphore that is fair between keys: they take turns, so do the members of a key in its turns, and each member's callers
 * go first in, first out. A key holds at most as many permits as are free then, as in a `SharedPot`, but one in any case. Callers without a key form one queue.
 */
export class Semaphore {
  readonly #permits: number;
  readonly #maxPerKey: number;
  readonly #maxWaiting: number;
  readonly #heldByKey = new Map<string, number>();
  /** In the order of turns: a key whose waiter got a permit goes to the end. */
  readonly #waiting = new Map<string, Waiters>();
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
  acquire({ key = "", member = "", signal }: SemaphoreCaller = {}): Promise<Release | undefined> {
    if (signal?.aborted) return Promise.resolve(undefined);
    const queue = this.#waiting.get(key) ?? new Waiters();
    if (queue.size === 0 && this.#mayEnter(key)) return Promise.resolve(this.#enter(key));
    if (queue.size >= this.#maxWaiting) return Promise.resolve(undefined);
    this.#waiting.set(key, queue);
    return new Promise((resolve) => {
      const admit: Waiter = (release) => {
        signal?.removeEventListener("abort", giveUp);
        resolve(release);
      };
      const giveUp = (): void => {
        queue.remove(member, admit);
        if (queue.size === 0) this.#waiting.delete(key);
        resolve(undefined);
      };
      queue.add(member, admit);
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
      const next = this.#mayEnter(key) ? queue.take() : undefined;
      if (next === undefined) continue;
      this.#waiting.delete(key);
      if (queue.size > 0) this.#waiting.set(key, queue);
      next(this.#enter(key));
    }
  }
}
