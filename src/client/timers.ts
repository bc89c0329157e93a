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
