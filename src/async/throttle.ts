import { LRUCache } from "lru-cache";

/** Bounds of a throttle. */
export interface ThrottleOptions {
  /** Tokens of a full bucket. */
  readonly capacity: number;
  /** Tokens that a bucket gets back after each interval. */
  readonly refill: number;
  /** Milliseconds of an interval. */
  readonly intervalMs: number;
  /** Maximum number of keys with a bucket. The key that was quiet longest is forgotten first; its next bucket is full. */
  readonly maxKeys: number;
  /** Returns monotonic milliseconds. Default: `performance.now`. */
  readonly now?: (() => number) | undefined;
}

interface Bucket {
  tokens: number;
  /** Start of the interval, monotonic milliseconds. */
  intervalAtMs: number;
  /** Times that a token was refused since the bucket was full. */
  refusals: number;
}

/** Token bucket for each key. */
export class Throttle {
  readonly #options: ThrottleOptions;
  readonly #now: () => number;
  readonly #buckets: LRUCache<string, Bucket>;

  constructor(options: ThrottleOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    // `maxSize`: with `max` the cache allocates all of its memory at once.
    this.#buckets = new LRUCache({ maxSize: options.maxKeys, sizeCalculation: () => 1 });
  }

  /** Takes a token of the key. Returns 0 on success, else the number of refusals of the key since its bucket was full. */
  take(key: string): number {
    const bucket = this.#refilled(key) ?? this.#createBucket(key);
    if (bucket.tokens > 0) {
      bucket.tokens -= 1;
      return 0;
    }
    bucket.refusals += 1;
    return bucket.refusals;
  }

  /** True if the key has no token left. */
  isExhausted(key: string): boolean {
    return this.#refilled(key)?.tokens === 0;
  }

  /** Returns the milliseconds until the key has a token; 0 if it has one. */
  waitMs(key: string): number {
    const bucket = this.#refilled(key);
    if (bucket === undefined || bucket.tokens > 0) return 0;
    return bucket.intervalAtMs + this.#options.intervalMs - this.#now();
  }

  #createBucket(key: string): Bucket {
    const bucket = { tokens: this.#options.capacity, intervalAtMs: this.#now(), refusals: 0 };
    this.#buckets.set(key, bucket);
    return bucket;
  }

  /** Returns the key's bucket with the tokens that it got back by now. */
  #refilled(key: string): Bucket | undefined {
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return undefined;
    const { capacity, refill, intervalMs } = this.#options;
    const nowMs = this.#now();
    const intervals = Math.floor((nowMs - bucket.intervalAtMs) / intervalMs);
    bucket.tokens = Math.min(capacity, bucket.tokens + intervals * refill);
    bucket.intervalAtMs += intervals * intervalMs;
    if (bucket.tokens === capacity) {
      bucket.intervalAtMs = nowMs;
      bucket.refusals = 0;
    }
    return bucket;
  }
}
