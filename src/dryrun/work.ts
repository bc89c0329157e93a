import { Turns } from "../async/turns.ts";

/** Work that yields wherever other requests may have a turn, and returns its result. */
export type Work<T> = Generator<undefined, T, undefined>;

/** Milliseconds of work that is done at once. */
const AT_ONCE_MS = 10;

/** Does work at once; undefined if it takes longer than a turn of the event loop may. It is then ended. */
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

/** Does work with turns for other requests in between. */
export async function doInTurns<T>(work: Work<T>): Promise<T> {
  const turns = new Turns();
  for (;;) {
    const step = work.next();
    if (step.done) return step.value;
    if (turns.isOver) await turns.next();
  }
}
