/** A request for part of a list. `P` is a position in it: an index in the log, a name or an id. */
export interface PageRequest<P = number> {
  /** Maximum number of items; at least 1. */
  readonly size: number;
  /** Position of the previous page's last item; undefined for the first page. */
  readonly after?: P | undefined;
}

/** Part of a list. */
export interface Page<T, P = number> {
  readonly items: readonly T[];
  /** The `after` of the next page; undefined on the last page. */
  readonly next: P | undefined;
}

/** Makes a page of up to `size + 1` items that were read: the surplus item only shows that the list continues. */
export function pageFrom<T, P>(read: readonly T[], size: number, positionOf: (item: T) => P): Page<T, P> {
  const items = read.slice(0, size);
  const last = items.at(-1);
  return { items, next: read.length > size && last !== undefined ? positionOf(last) : undefined };
}

/** Pages through items in memory, newest first. They come oldest first; `seqOf` is the log index where each began. */
export function newestPage<T>(
  oldestFirst: Iterable<T>,
  seqOf: (item: T) => number,
  { size, after = Number.POSITIVE_INFINITY }: PageRequest,
  isWanted: (item: T) => boolean = () => true,
): Page<T> {
  const items = [...oldestFirst];
  const read: T[] = [];
  for (let index = items.length - 1; index >= 0 && read.length <= size; index--) {
    const item = items[index] as T;
    if (seqOf(item) < after && isWanted(item)) read.push(item);
  }
  return pageFrom(read, size, seqOf);
}

/** Makes the ORM's condition and options for a page of rows ordered by a number, such as a log index, highest first, and one surplus row. */
export function latestFirst(seqColumn: string, { size, after }: PageRequest) {
  const where = after === undefined ? {} : { [seqColumn]: { $lt: after } };
  return { where, options: { orderBy: { [seqColumn]: "desc" }, limit: size + 1 } as never };
}

const CURSOR = /^(\d{1,16}) (\S+)$/;

/** Makes the position of a row in a list that `newestFirst` reads. */
export const cursorOf = ({ createdAtMs }: { readonly createdAtMs: number }, id: string): string =>
  `${createdAtMs} ${id}`;

/**
 * Makes the ORM's condition and options for a page of rows with creation times, newest first, and one surplus row. Rows of
 * one time are ordered by id.
 */
export function newestFirst(idColumn: string, { size, after = "" }: PageRequest<string>) {
  const [, at, id] = CURSOR.exec(after) ?? [];
  const createdAtMs = Number(at);
  const where =
    at === undefined ? {} : { $or: [{ createdAtMs: { $lt: createdAtMs } }, { createdAtMs, [idColumn]: { $lt: id } }] };
  return { where, options: { orderBy: [{ createdAtMs: "desc" }, { [idColumn]: "desc" }], limit: size + 1 } as never };
}
