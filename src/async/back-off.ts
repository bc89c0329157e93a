/** Bounds of a back-off. */
export interface BackOffOptions {
  /** Milliseconds of the first pause. */
  readonly firstMs: number;
  /** Maximum pause, in milliseconds. */
  readonly maxMs: number;
}

/**
 * Returns the milliseconds of the pause after a number of earlier failures in a row: the doubled span, less up to half of it at
 * random, which keeps many callers from returning at the same moment.
 */
export function pauseAfter({ firstMs, maxMs }: BackOffOptions, failures: number): number {
  const spanMs = Math.min(maxMs, firstMs * 2 ** failures);
  return spanMs / 2 + (Math.random() * spanMs) / 2;
}

/** Exponential back-off with jitter. */
export interface BackOff {
  /** Returns the milliseconds of the next pause. */
  next(): number;
  /** Starts over. */
  reset(): void;
}

/** Creates a back-off. */
export function createBackOff(options: BackOffOptions): BackOff {
  let failures = 0;
  return {
    next() {
      const pauseMs = pauseAfter(options, failures);
      failures += 1;
      return pauseMs;
    },
    reset() {
      failures = 0;
    },
  };
}
