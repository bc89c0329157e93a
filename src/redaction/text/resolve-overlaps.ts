import type { PersonalKind, Range } from "../../text/personal-kinds.ts";

/** A range that may be scrubbed, before overlaps are resolved. */
export interface Candidate extends Range {
  /** Undefined for a placeholder. */
  readonly kind: PersonalKind | undefined;
  /** Among candidates with equal ranges the lowest rank wins. */
  readonly rank: number;
  /** Value of a placeholder. */
  readonly value?: string;
}

const compare = (one: Candidate, other: Candidate): number =>
  one.start - other.start || other.end - one.end || one.rank - other.rank;

/** Returns the candidate that ends later. */
function longer(one: Candidate | undefined, other: Candidate): Candidate {
  if (one === undefined || other.end > one.end) return other;
  return other.end === one.end && other.rank < one.rank ? other : one;
}

/**
 * Selects winners by a sweep over overlapping candidates: earliest start, then longest, then lowest rank. A loser that extends
 * beyond the winner competes again with the rest of its range, so that no part of a value stays; a placeholder does not.
 *
 * Sweeps from `from` to the first winner that starts at `safe` or later, because a later candidate may still beat it. Calls
 * `take` with each winner and the index from which it is to be replaced. Returns the index up to which the text is decided;
 * `candidates` then holds the candidates that still compete.
 */
export function resolveOverlaps(
  candidates: Candidate[],
  from: number,
  safe: number,
  take: (candidate: Candidate, start: number) => void,
): number {
  if (candidates.length === 0) return Math.max(from, safe);
  candidates.sort(compare);
  let position = from;
  let running: Candidate | undefined;
  for (let next = 0; ; ) {
    for (; next < candidates.length && (candidates[next] as Candidate).start <= position; next++) {
      const candidate = candidates[next] as Candidate;
      if (candidate.kind !== undefined || candidate.start === position) running = longer(running, candidate);
    }
    const winner = running !== undefined && running.end > position ? running : candidates[next];
    if (winner === undefined) break;
    const start = Math.max(position, winner.start);
    if (start >= safe) break;
    take(winner, start);
    position = winner.end;
  }
  keepOpen(candidates, position);
  return Math.max(position, safe);
}

function keepOpen(candidates: Candidate[], position: number): void {
  let kept = 0;
  for (const candidate of candidates) {
    if (candidate.end > position) candidates[kept++] = candidate;
  }
  candidates.length = kept;
}
