/** A listing that begins when the previous one has ended, and is aborted when its last caller has left. */
export class SharedListing<T> {
  readonly #ending = new AbortController();
  readonly #result: Promise<T>;
  #beganAt = Number.POSITIVE_INFINITY;
  #isOver = false;
  #waiting = 0;

  constructor(before: SharedListing<T> | undefined, list: (signal: AbortSignal) => Promise<T>) {
    const begin = (): Promise<T> => {
      this.#beganAt = performance.now();
      this.#ending.signal.throwIfAborted();
      return list(this.#ending.signal);
    };
    this.#result = before === undefined ? begin() : before.#result.then(begin, begin);
    const end = (): void => {
      this.#isOver = true;
    };
    // Every caller may have left.
    this.#result.then(end, end);
  }

  /** Time of `performance.now()` at which it began; infinite before. */
  get beganAt(): number {
    return this.#beganAt;
  }

  /** True while its result may still come. */
  get isOpen(): boolean {
    return !this.#isOver && !this.#ending.signal.aborted;
  }

  /** Returns the result. Rejects with the signal's reason once it aborts. */
  until(signal: AbortSignal): Promise<T> {
    this.#waiting += 1;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting -= 1;
        if (this.#waiting === 0) this.#ending.abort(signal.reason);
        reject(signal.reason);
      };
      if (signal.aborted) return leave();
      signal.addEventListener("abort", leave, { once: true });
      const stay = (): void => signal.removeEventListener("abort", leave);
      this.#result.finally(stay).then(resolve, reject);
    });
  }
}
