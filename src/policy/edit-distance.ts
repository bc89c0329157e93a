const MAX_LENGTH = 128;
const MAX_CANDIDATES = 5000;

/**
 * The candidate nearest to a text, without regard to case; undefined when none is near. Near is at most a third of the
 * text's length away, and at least one step. Among equals the first in code-unit order.
 */
export function nearest(text: string, candidates: Iterable<string>): string | undefined {
  const wanted = text.trim().toLowerCase();
  if (wanted === "" || wanted.length > MAX_LENGTH) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  let looked = 0;
  for (const candidate of candidates) {
    if (looked++ >= MAX_CANDIDATES) break;
    if (Math.abs(candidate.length - wanted.length) > bestDistance) continue;
    const distance = editDistance(wanted, candidate.toLowerCase());
    const ahead = distance === bestDistance && best !== undefined && candidate < best;
    if (distance < bestDistance || ahead) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** How many insertions, deletions, replacements and swaps of neighbours turn one text into the other. */
export function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      current.push(stepCost(from, to, row, column, { before, previous, current }));
    }
    [before, previous] = [previous, current];
  }
  return previous[to.length] ?? 0;
}

interface Rows {
  readonly before: readonly number[];
  readonly previous: readonly number[];
  readonly current: readonly number[];
}

function stepCost(from: string, to: string, row: number, column: number, rows: Rows): number {
  const same = from[row - 1] === to[column - 1];
  const replaced = at(rows.previous, column - 1) + (same ? 0 : 1);
  const cost = Math.min(replaced, at(rows.previous, column) + 1, at(rows.current, column - 1) + 1);
  const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
  return swapped ? Math.min(cost, at(rows.before, column - 2) + 1) : cost;
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
