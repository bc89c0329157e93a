/** Which part of a list is asked for. `P` is a position in it: an index in the log, a name or an id. */
export interface PageRequest<P = number> {
  /** Items at most; at least 1. */
  readonly size: number;
  /** The position of the last item of the page before; undefined for the first page. */
  readonly after?: P | undefined;
}

/** A part of a list. */
export interface Page<T, P = number> {
  readonly items: readonly T[];
  /** Continues the list as `PageRequest.after`; undefined on the last page. */
  readonly next: P | undefined;
}

/** The page that one item more than asked for was read for: the surplus only tells that the list goes on. */
export function pageFrom<T, P>(read: readonly T[], size: number, positionOf: (item: T) => P): Page<T, P> {
  const items = read.slice(0, size);
  const last = items.at(-1);
  return { items, next: read.length > size && last !== undefined ? positionOf(last) : undefined };
}

/** A page of a list that is in memory, oldest first, by the index in the log where each began: newest first. */
export function newestPage<T>(
  oldestFirst: readonly T[],
  seqOf: (item: T) => number,
  { size, after }: PageRequest,
  isWanted: (item: T) => boolean = () => true,
): Page<T> {
  const read: T[] = [];
  for (let index = countBefore(oldestFirst, seqOf, after) - 1; index >= 0 && read.length <= size; index--) {
    const item = oldestFirst[index] as T;
    if (isWanted(item)) read.push(item);
  }
  return pageFrom(read, size, seqOf);
}

/** How many items began before an index, by binary search. */
function countBefore<T>(oldestFirst: readonly T[], seqOf: (item: T) => number, seq: number | undefined): number {
  if (seq === undefined) return oldestFirst.length;
  let [low, high] = [0, oldestFirst.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (seqOf(oldestFirst[middle] as T) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Grown {
  readonly list: unknown[];
  readonly rest: Iterator<unknown>;
}

// Keyed by the map itself, so a list lives exactly as long as the state it belongs to.
const grownLists = new WeakMap<ReadonlyMap<unknown, unknown>, Grown>();

/**
 * The values of a map that only grows, in the order of their insertion. Costs what was added since the last call, so that
 * a page of 100,000 agents does not copy them. The caller MUST NOT change the list.
 */
export function valuesOfGrowing<T>(map: ReadonlyMap<unknown, T>): readonly T[] {
  let grown = grownLists.get(map);
  if (grown === undefined) {
    grown = { list: [], rest: map.values() };
    grownLists.set(map, grown);
  }
  // INVARIANT: the iterator is never asked past the end, since an iterator that ended does not see later additions.
  while (grown.list.length < map.size) grown.list.push(grown.rest.next().value);
  return grown.list as readonly T[];
}
