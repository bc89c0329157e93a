import { setImmediate } from "node:timers/promises";

/** Work that yields wherever other requests may have a turn, and returns its result. */
export type Work<T> = Generator<undefined, T, undefined>;

/** Milliseconds after which work gives way. */
const TURN_MS = 10;

/** Does work at once; undefined if it takes longer than a turn of the event loop may. It is then ended. */
export function doAtOnce<T>(work: Work<T>): { readonly result: T } | undefined {
  const startedAt = performance.now();
  for (;;) {
    const step = work.next();
    if (step.done) return { result: step.value };
    if (performance.now() - startedAt < TURN_MS) continue;
    // Runs its `finally`.
    work.return(undefined as never);
    return undefined;
  }
}

/** Does work with turns for other requests in between. */
export async function doInTurns<T>(work: Work<T>): Promise<T> {
  let startedAt = performance.now();
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (performance.now() - startedAt < TURN_MS) continue;
    await setImmediate();
    startedAt = performance.now();
  }
}
