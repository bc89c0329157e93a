import type { Candidate } from "./candidate.ts";

/** What a sweep gives: a candidate that won, from where it may be taken on. */
export type Take = (candidate: Candidate, start: number) => void;

const comesFirst = (one: Candidate, other: Candidate): number =>
  one.start - other.start || other.end - one.end || one.rank - other.rank;

/** The one of two that reaches the same place which covers more of what follows it. */
function further(one: Candidate | undefined, other: Candidate): Candidate {
  if (one === undefined || other.end > one.end) return other;
  return other.end === one.end && other.rank < one.rank ? other : one;
}

/**
 * Chooses among candidates: of those that begin first the longest, of equals the one with the lowest rank. One that sticks
 * out of a winner stays in the running with what sticks out, so that nothing of it gets out; a placeholder does not.
 *
 * Goes from `from` on to the first winner that begins at `safe` or later, since what is not known yet may beat it. Gives up
 * to where the text is settled; `waiting` then holds what is still in the running.
 */
export function sweep(waiting: Candidate[], from: number, safe: number, take: Take): number {
  if (waiting.length === 0) return Math.max(from, safe);
  waiting.sort(comesFirst);
  let position = from;
  let over: Candidate | undefined;
  for (let next = 0; ; ) {
    for (; next < waiting.length && (waiting[next] as Candidate).start <= position; next++) {
      const candidate = waiting[next] as Candidate;
      if (candidate.kind !== undefined || candidate.start === position) over = further(over, candidate);
    }
    const winner = over !== undefined && over.end > position ? over : waiting[next];
    if (winner === undefined) break;
    const start = Math.max(position, winner.start);
    if (start >= safe) break;
    take(winner, start);
    position = winner.end;
  }
  keepAfter(waiting, position);
  return Math.max(position, safe);
}

function keepAfter(waiting: Candidate[], position: number): void {
  let kept = 0;
  for (const candidate of waiting) {
    if (candidate.end > position) waiting[kept++] = candidate;
  }
  waiting.length = kept;
}
