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

/** Maximum bytes of the items of a page: encoded, they stay below the 4 MiB that clients of gRPC accept by default. */
export const MAX_PAGE_BYTES = 3_145_728;

/**
 * Makes a page of up to `size + 1` items that were read, of at most `MAX_PAGE_BYTES` or one item. A surplus item only shows that
 * the list continues.
 */
export function pageFrom<T, P>(
  read: readonly T[],
  size: number,
  positionOf: (item: T) => P,
  bytesOf: (item: T) => number = jsonBytes,
): Page<T, P> {
  const items: T[] = [];
  let bytes = 0;
  for (const item of read.slice(0, size)) {
    bytes += bytesOf(item);
    if (items.length > 0 && bytes > MAX_PAGE_BYTES) break;
    items.push(item);
  }
  const last = items.at(-1);
  return { items, next: read.length > items.length && last !== undefined ? positionOf(last) : undefined };
}

/** Returns about as many bytes as a plain value has in JSON. */
export function jsonBytes(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(value) + 2;
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return 8;
  return Object.entries(value).reduce((sum, [key, item]) => sum + key.length + 4 + jsonBytes(item), 2);
}

/** Rows of lists with large items that are read at a time. */
const CHUNK = 16;

/**
 * Reads a page of items that may be large, a few at a time, until it is full by number or by bytes. `read` returns up to
 * `size + 1` items after a position.
 */
export async function readPage<T, P>(
  { size, after }: PageRequest<P>,
  positionOf: (item: T) => P,
  read: (chunk: PageRequest<P>) => Promise<readonly T[]>,
): Promise<Page<T, P>> {
  const items: T[] = [];
  let bytes = 0;
  let position = after;
  for (;;) {
    const wanted = Math.min(CHUNK, size + 1 - items.length);
    const chunk = await read({ size: wanted - 1, after: position });
    items.push(...chunk);
    bytes += chunk.reduce((sum, item) => sum + jsonBytes(item), 0);
    const last = items.at(-1);
    const isFull = items.length > size || (items.length > 1 && bytes > MAX_PAGE_BYTES);
    if (isFull || chunk.length < wanted || last === undefined) return pageFrom(items, size, positionOf);
    position = positionOf(last);
  }
}

/**
 * Lists the latest versions of something, newest first: at most `size`, and at most what fits into a page. `read` returns up to
 * `size + 1` versions before one. The current version, which a reply shows twice, is counted twice.
 */
export async function latestVersions<T>(
  current: T,
  size: number,
  versionOf: (item: T) => number,
  read: (chunk: PageRequest) => Promise<readonly T[]>,
): Promise<readonly T[]> {
  const { items } = await readPage({ size, after: versionOf(current) }, versionOf, read);
  const bytesOf = (item: T): number => jsonBytes(item) * (item === current ? 2 : 1);
  return pageFrom([current, ...items], size, versionOf, bytesOf).items;
}

/** Pages through items in memory, newest first. They come oldest first; their positions ascend, such as the log index where each began. */
export function newestPage<T, P extends number | string>(
  oldestFirst: Iterable<T>,
  positionOf: (item: T) => P,
  { size, after }: PageRequest<P>,
  isWanted: (item: T) => boolean = () => true,
  bytesOf?: (item: T) => number,
): Page<T, P> {
  const items = [...oldestFirst];
  const read: T[] = [];
  for (let index = items.length - 1; index >= 0 && read.length <= size; index--) {
    const item = items[index] as T;
    if ((after === undefined || positionOf(item) < after) && isWanted(item)) read.push(item);
  }
  return pageFrom(read, size, positionOf, bytesOf);
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
 * Makes the ORM's condition and options for a page of rows ordered by a number, highest first, and one surplus row. Rows of one
 * number are ordered by id. Default: the time of creation.
 */
export function newestFirst(idColumn: string, { size, after = "" }: PageRequest<string>, column = "createdAtMs") {
  const [, text, id] = CURSOR.exec(after) ?? [];
  const number = Number(text);
  const where =
    text === undefined ? {} : { $or: [{ [column]: { $lt: number } }, { [column]: number, [idColumn]: { $lt: id } }] };
  return { where, options: { orderBy: [{ [column]: "desc" }, { [idColumn]: "desc" }], limit: size + 1 } as never };
}
