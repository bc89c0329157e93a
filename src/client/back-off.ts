/** How pauses grow. */
export interface BackOffOptions {
  /** Milliseconds of the first pause. */
  readonly firstMs: number;
  /** Most milliseconds of a pause. */
  readonly mostMs: number;
}

/** Pauses between attempts that double, with jitter so that many callers do not come back together. */
export interface BackOff {
  /** Milliseconds of the next pause: between half and all of what doubling gives. */
  next(): number;
  /** Starts over. */
  reset(): void;
}

/** Creates a back-off. */
export function createBackOff({ firstMs, mostMs }: BackOffOptions): BackOff {
  let span = firstMs;
  return {
    next() {
      const pause = span / 2 + (Math.random() * span) / 2;
      span = Math.min(span * 2, mostMs);
      return pause;
    },
    reset() {
      span = firstMs;
    },
  };
}

/** Longest time that a timer can be set to, in milliseconds. */
const MOST_TIMER_MS = 2_147_483_647;

/** Calls back after `ms` milliseconds; never, when that is longer than a timer can run. Gives what cancels it. */
export function later(ms: number, call: () => void): () => void {
  if (ms > MOST_TIMER_MS) return () => undefined;
  const timer = setTimeout(call, ms);
  return () => clearTimeout(timer);
}

/** Waits `ms` milliseconds; rejects with the signal's reason when it aborts. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = later(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
