/** Why work was ended before it was done. */
export type EndedBy = "timed_out" | "cancelled";

/** A signal that knows why it was aborted. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Why it was aborted so far; undefined when it was not. */
  endedBy(): EndedBy | undefined;
  /** Lets go of the timer and of the caller's signal. MUST be called. */
  clear(): void;
}

/** A deadline in some milliseconds, which the caller's signal brings forward. */
export function createDeadline(ms: number, caller: AbortSignal): Deadline {
  const ending = new AbortController();
  let endedBy: EndedBy | undefined;
  const end = (by: EndedBy) => (): void => {
    endedBy ??= by;
    ending.abort();
  };
  const cancel = end("cancelled");
  const timer = setTimeout(end("timed_out"), ms);
  // Not `AbortSignal.any`: a stream's signal outlives thousands of questions, and would keep something of each.
  caller.addEventListener("abort", cancel, { once: true });
  if (caller.aborted) cancel();
  return {
    signal: ending.signal,
    endedBy: () => endedBy,
    clear() {
      clearTimeout(timer);
      caller.removeEventListener("abort", cancel);
    },
  };
}
