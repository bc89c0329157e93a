/** Bounds of a back-off. */
export interface BackOffOptions {
  /** Milliseconds of the first pause. */
  readonly firstMs: number;
  /** Maximum pause, in milliseconds. */
  readonly maxMs: number;
}

/** Exponential back-off with jitter, which keeps many callers from returning at the same moment. */
export interface BackOff {
  /** Returns the milliseconds of the next pause: between half and all of the doubled span. */
  next(): number;
  /** Starts over. */
  reset(): void;
}

/** Creates a back-off. */
export function createBackOff({ firstMs, maxMs }: BackOffOptions): BackOff {
  let span = firstMs;
  return {
    next() {
      const pause = span / 2 + (Math.random() * span) / 2;
      span = Math.min(span * 2, maxMs);
      return pause;
    },
    reset() {
      span = firstMs;
    },
  };
}

/** Maximum delay of a platform timer, in milliseconds. */
const MAX_TIMER_MS = 2_147_483_647;

/** Calls back after `ms` milliseconds; never when that exceeds the longest timer. Returns a function that cancels it. */
export function later(ms: number, call: () => void): () => void {
  if (ms > MAX_TIMER_MS) return () => undefined;
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
