/*
 * As much of HPACK (RFC 7541) as a load needs: header blocks of literals, encoded once and sent again and again, and the
 * fields of a reply that failed. No dynamic table: the connection tells its peer that it keeps none.
 */

/** Names and values of a header block, in order. */
export type HeaderFields = readonly (readonly [name: string, value: string])[];

/** Symbols by the length of their code, each in the order of its codes, which follow from that: the code is canonical. */
const SYMBOLS_BY_BITS: ReadonlyMap<number, string> = new Map([
  [5, "012aceiost"],
  [6, " %-./3456789=A_bdfghlmnpru"],
  [7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"],
  [8, "&*,;XZ"],
  [10, '!"()?'],
  [11, "'+|"],
  [12, "#>"],
  [13, "\0$@[]~"],
  [14, "^}"],
  [15, "<`{"],
  [19, "\\\u00c3\u00d0"],
]);
/** Longest code that is read; longer ones stand for symbols that no header of a gRPC reply holds. */
const MOST_BITS = 19;

/** What entries 8 to 14 of the static table say. */
const STATUS_AT = 8;
const STATUSES = ["200", "204", "206", "304", "400", "404", "500"];

function encodedString(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  const head: number[] = [Math.min(bytes.length, 127)];
  // A length that 7 bits cannot hold goes on in groups of 7, the lowest first.
  if (bytes.length >= 127) {
    let left = bytes.length - 127;
    for (; left >= 128; left >>>= 7) head.push((left & 127) | 128);
    head.push(left);
  }
  return Buffer.concat([Buffer.from(head), bytes]);
}

/** A header block that reads the same at any time on any connection: nothing in it refers to a table. */
export function headerBlockOf(fields: HeaderFields): Buffer {
  const literal = Buffer.from([0]);
  return Buffer.concat(fields.flatMap(([name, value]) => [literal, encodedString(name), encodedString(value)]));
}

/** Reads the Huffman code of RFC 7541, appendix B, up to the first symbol with a code of more than 19 bits. */
function huffmanText(bytes: Buffer): string {
  let text = "";
  let code = 0;
  let bits = 0;
  // The first code of the current length.
  let first = 0;
  for (let at = 0; at < bytes.length * 8; at++) {
    code = code * 2 + (((bytes[at >> 3] as number) >> (7 - (at & 7))) & 1);
    first *= 2;
    bits += 1;
    const symbols = SYMBOLS_BY_BITS.get(bits) ?? "";
    if (code - first < symbols.length) {
      text += symbols[code - first];
      code = bits = first = 0;
    } else if (bits === MOST_BITS) {
      return `${text}...`;
    } else {
      first += symbols.length;
    }
  }
  return text;
}

interface Cursor {
  readonly bytes: Buffer;
  at: number;
}

function nextByte(cursor: Cursor): number {
  const byte = cursor.bytes[cursor.at++];
  if (byte === undefined) throw new Error("the header block ends too early");
  return byte;
}

/** An integer whose first byte has so many bits of it. */
function nextInteger(cursor: Cursor, bits: number): number {
  const most = 2 ** bits - 1;
  let value = nextByte(cursor) & most;
  if (value < most) return value;
  for (let factor = 1; ; factor *= 128) {
    const byte = nextByte(cursor);
    value += (byte & 127) * factor;
    if (byte < 128) return value;
  }
}

function nextString(cursor: Cursor): string {
  const isHuffman = ((cursor.bytes[cursor.at] ?? 0) & 128) !== 0;
  const length = nextInteger(cursor, 7);
  const bytes = cursor.bytes.subarray(cursor.at, cursor.at + length);
  cursor.at += length;
  return isHuffman ? huffmanText(bytes) : bytes.toString("latin1");
}

function readField(cursor: Cursor, fields: Map<string, string>): void {
  const first = cursor.bytes[cursor.at] ?? 0;
  if (first >= 128) {
    const status = STATUSES[nextInteger(cursor, 7) - STATUS_AT];
    if (status !== undefined) fields.set(":status", status);
  } else if (first >= 32 && first < 64) {
    nextInteger(cursor, 5);
  } else {
    const index = nextInteger(cursor, first >= 64 ? 6 : 4);
    const name = index === 0 ? nextString(cursor) : index === STATUS_AT ? ":status" : `static ${index}`;
    fields.set(name, nextString(cursor));
  }
}

/**
 * The fields of a block from a peer without a dynamic table, by name. Of names from the static table only `:status` is
 * spelt out. What comes after a part that cannot be read is left out.
 */
export function readableFields(block: Buffer): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  const cursor: Cursor = { bytes: block, at: 0 };
  try {
    while (cursor.at < block.length) readField(cursor, fields);
  } catch {
    // What was read so far is what there is to tell.
  }
  return fields;
}
