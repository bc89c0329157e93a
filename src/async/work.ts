import { Turns } from "./turns.ts";

/** Work that yields wherever other requests may have a turn, and returns its result. */
export type Work<T> = Generator<undefined, T, undefined>;

/** Maximum milliseconds of work that is done at once. */
const AT_ONCE_MS = 10;

/** Runs work at once. Ends it and returns undefined if it takes too long for one turn of the event loop. */
export function doAtOnce<T>(work: Work<T>): { readonly result: T } | undefined {
  const turns = new Turns(AT_ONCE_MS);
  for (;;) {
    const step = work.next();
    if (step.done) return { result: step.value };
    if (!turns.isOver) continue;
    // Runs its `finally`.
    work.return(undefined as never);
    return undefined;
  }
}

/** Runs work to its end, where nobody waits for a turn, or where it is known to be short. */
export function doToEnd<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
  }
}

/** Runs work with turns of the event loop in between. */
export async function doInTurns<T>(work: Work<T>): Promise<T> {
  const turns = new Turns();
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (turns.isOver) await turns.next();
  }
}
