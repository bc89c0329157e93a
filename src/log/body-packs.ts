import { promisify } from "node:util";
import { constants, zstdCompressSync, zstdDecompress } from "node:zlib";
import { PACK_ENTRIES, type PackedRow } from "../store/sql/packed-bodies.ts";

const LINE_FEED = 0x0a;
/** Entries of a pack that are worth one: few have little in common, and each pack is a row of its own. */
const LEAST_PACKED = 8;
/** Bytes of a body that is packed: reading one entry reads its whole pack, a megabyte at most. */
const LARGEST_PACKED = 16_384;
/** What neighbouring bodies share is found at every level; higher ones only take longer. */
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };
const decompressed = promisify(zstdDecompress);

/** Canonical bodies of a batch in UTF-8, each with a line feed behind it, which no body holds, and where each lies. */
export interface Bodies {
  readonly bytes: Buffer;
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

/** Parts of bytes, counted from 1 as the database does. */
interface Parts {
  readonly bytes: Buffer;
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

/** The bodies of a batch as they are stored. */
export interface StoredBodies {
  /** Those that lie in their entries' rows; length 0 for the others. */
  readonly inRows: Parts;
  /** Zstandard frames (RFC 8878) of lines, a body each, and which entry of the batch each begins with. */
  readonly packs: Parts & { readonly firsts: readonly number[] };
}

/** Encodes bodies. One by one: joining them first takes three times as long. */
export function encodedBodies(bodies: readonly string[]): Bodies {
  const lengths = bodies.map((body) => Buffer.byteLength(body));
  // A byte before the first is lent to its leaf's prefix.
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length + 1, 1));
  let end = 1;
  const starts = bodies.map((body) => {
    const start = end;
    end += bytes.write(body, start);
    bytes[end] = LINE_FEED;
    end += 1;
    return start;
  });
  return { bytes, starts, lengths };
}

/** Bytes one after the other. */
function partsOf(buffers: readonly Buffer[]): Parts {
  let start = 1;
  const starts = buffers.map(({ length }) => {
    const at = start;
    start += length;
    return at;
  });
  return { bytes: Buffer.concat(buffers), starts, lengths: buffers.map(({ length }) => length) };
}

const NOTHING = Buffer.alloc(0);
const EMPTY_LINE = Buffer.from([LINE_FEED]);

/**
 * Packs neighbouring bodies, a thirtieth of their size. `isReadAlone` tells of those that the database reads, or that are
 * read one by one: they lie in their rows, as large ones do, and their lines are empty.
 */
export function storedBodies(
  { bytes, starts, lengths }: Bodies,
  isReadAlone: (index: number) => boolean,
): StoredBodies {
  const lineAt = (index: number): Buffer => {
    const start = starts[index] as number;
    return bytes.subarray(start, start + (lengths[index] as number) + 1);
  };
  const isPackable = (index: number): boolean => (lengths[index] as number) <= LARGEST_PACKED && !isReadAlone(index);
  const rows: Buffer[] = [];
  const packs: Buffer[] = [];
  const firsts: number[] = [];
  for (let first = 0; first < starts.length; first += PACK_ENTRIES) {
    const indexes = starts.slice(first, first + PACK_ENTRIES).map((_, index) => first + index);
    const packable = indexes.map(isPackable);
    const isPacked = packable.filter(Boolean).length >= LEAST_PACKED;
    for (const index of indexes)
      rows.push(isPacked && packable[index - first] ? NOTHING : lineAt(index).subarray(0, -1));
    if (!isPacked) continue;
    const lines = indexes.map((index) => (packable[index - first] ? lineAt(index) : EMPTY_LINE));
    packs.push(zstdCompressSync(Buffer.concat(lines), LEVEL));
    firsts.push(first);
  }
  return { inRows: partsOf(rows), packs: { ...partsOf(packs), firsts } };
}

/** Some lines of a pack, by their numbers. Each as a text of its own: one cut out of a longer one would keep all of it. */
function linesOf(bytes: Buffer, wanted: ReadonlySet<number>): Map<number, string> {
  const lines = new Map<number, string>();
  let start = 0;
  for (let number = 0; lines.size < wanted.size; number++) {
    const end = bytes.indexOf(LINE_FEED, start);
    if (end < 0) break;
    if (wanted.has(number)) lines.set(number, bytes.toString("utf8", start, end));
    start = end + 1;
  }
  return lines;
}

/** The bodies of rows, in their order. Empty where a body was lost or cannot be read: then it does not fit its hash. */
export async function bodiesFrom(rows: readonly PackedRow[]): Promise<string[]> {
  const bodies = new Map<number, string>();
  const packs = Map.groupBy(
    rows.filter(({ packSeq }) => packSeq !== null),
    ({ packSeq }) => packSeq as number,
  );
  // One after the other: a page may have a pack for each of its rows, and each is thirty times as large in memory.
  for (const [first, inPack] of packs) {
    const pack = inPack.find(({ pack }) => pack !== null)?.pack ?? NOTHING;
    const bytes = await decompressed(pack).catch(() => NOTHING);
    const lines = linesOf(bytes, new Set(inPack.map(({ seq }) => seq - first)));
    for (const [number, line] of lines) bodies.set(first + number, line);
  }
  return rows.map(({ seq, body }) => body ?? bodies.get(seq) ?? "");
}
