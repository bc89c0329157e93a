import { doInTurns, type Work } from "../async/work.ts";

/** Values and characters that are written between two looks at the clock. */
const PIECE = { values: 512, length: 65_536 };

/**
 * Writes a JSON value over several turns of the event loop, as `JSON.stringify` does. The value MUST consist of plain objects,
 * arrays, texts, numbers, booleans, null, and members that are undefined.
 */
export async function writeJson(value: unknown): Promise<string> {
  return doInTurns(jsonWriting(value));
}

/** Writes a JSON value as work that may pause. */
export function* jsonWriting(value: unknown): Work<string> {
  const text = new GrowingText();
  yield* writing(value, text);
  return text.joined();
}

/** Text that grows. Its parts are joined as they come: a million of them would be joined in one turn at the end. */
class GrowingText {
  readonly #joined: string[] = [];
  #parts: string[] = [];
  #values = 0;
  #length = 0;

  add(part: string): void {
    this.#parts.push(part);
    this.#length += part.length;
  }

  /** Counts a value. Returns true where the work may pause. */
  isPiece(values = 1): boolean {
    this.#values += values;
    if (this.#values < PIECE.values && this.#length < PIECE.length) return false;
    this.#joined.push(this.#parts.join(""));
    this.#parts = [];
    this.#values = 0;
    this.#length = 0;
    return true;
  }

  joined(): string {
    return this.#joined.length === 0 ? this.#parts.join("") : [...this.#joined, ...this.#parts].join("");
  }
}

function* writing(value: unknown, text: GrowingText): Work<void> {
  if (typeof value === "string" && value.length > PIECE.length) yield* writingText(value, text);
  else if (typeof value !== "object" || value === null) text.add(JSON.stringify(value) ?? "null");
  else if (Array.isArray(value)) yield* writingItems(value, text);
  else yield* writingMembers(value as Readonly<Record<string, unknown>>, text);
  if (text.isPiece()) yield;
}

function* writingText(value: string, text: GrowingText): Work<void> {
  text.add('"');
  for (let start = 0; start < value.length; ) {
    let end = Math.min(start + PIECE.length, value.length);
    // A pair stays together: its halves alone would be escaped.
    if (isHighSurrogate(value.charCodeAt(end - 1)) && end < value.length) end += 1;
    text.add(JSON.stringify(value.slice(start, end)).slice(1, -1));
    if (text.isPiece()) yield;
    start = end;
  }
  text.add('"');
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;

function* writingItems(items: readonly unknown[], text: GrowingText): Work<void> {
  text.add("[");
  for (let index = 0; index < items.length; index++) {
    if (index > 0) text.add(",");
    // Most lists of numbers are long.
    let end = index;
    while (end < items.length && end - index < PIECE.values && typeof items[end] === "number") end += 1;
    if (end - index > 1) {
      text.add(JSON.stringify(items.slice(index, end)).slice(1, -1));
      if (text.isPiece(end - index)) yield;
      index = end - 1;
    } else yield* writing(items[index], text);
  }
  text.add("]");
}

function* writingMembers(members: Readonly<Record<string, unknown>>, text: GrowingText): Work<void> {
  let separator = "{";
  for (const name of Object.keys(members)) {
    const member = members[name];
    if (member === undefined) continue;
    text.add(`${separator}${JSON.stringify(name)}:`);
    separator = ",";
    yield* writing(member, text);
  }
  text.add(separator === "{" ? "{}" : "}");
}
