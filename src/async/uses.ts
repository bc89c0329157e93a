/** Counts the uses of something that stays open while it is used. */
export class Uses {
  #count = 0;
  #idleSinceMs = performance.now();

  /** True while nothing uses it. */
  get isIdle(): boolean {
    return this.#count === 0;
  }

  /** Monotonic milliseconds at which the last use ended; before the first use, those of its creation. */
  get idleSinceMs(): number {
    return this.#idleSinceMs;
  }

  /** Begins a use. Returns the function that ends it, which may be called repeatedly. `onEnd` is called once, after the end. */
  begin(onEnd?: () => void): () => void {
    this.#count += 1;
    let isUsed = true;
    return () => {
      if (!isUsed) return;
      isUsed = false;
      this.#count -= 1;
      this.#idleSinceMs = performance.now();
      onEnd?.();
    };
  }
}
