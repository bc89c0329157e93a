import { Turns } from "../async/turns.ts";
import { doInTurns, type Work } from "../async/work.ts";

/** Bounds of a JSON text. */
export interface JsonBounds {
  /** Maximum number of open brackets. */
  readonly maxDepth: number;
  /** Maximum number of commas and opening brackets, which is about the number of values. */
  readonly maxValues: number;
  /** True refuses an object that names a member twice. Default: its last value counts, as in `JSON.parse`. */
  readonly hasUniqueMembers?: boolean;
}

/** Step of a path: the name of a member, or the index of an item. */
export type JsonStep = string | number;

/** Reason to refuse a JSON text. */
export type JsonFaultKind = "malformed" | "too_deep" | "too_many_values" | "repeated_member";

/** Refusal of a JSON text. Quotes nothing of it but the path of a repeated member. */
export class JsonFault extends Error {
  override readonly name = "JsonFault";
  readonly kind: JsonFaultKind;
  /** Index in a malformed text, if it is known. */
  readonly position: number | undefined;
  /** Place of a repeated member. */
  readonly path: readonly JsonStep[];

  constructor(
    kind: JsonFaultKind,
    { position, path = [] }: { readonly position?: number | undefined; readonly path?: readonly JsonStep[] } = {},
  ) {
    super(`the JSON text is refused: ${kind.replaceAll("_", " ")}`);
    this.kind = kind;
    this.position = position;
    this.path = path;
  }
}

/** Characters that are scanned between two looks at the clock. */
const STEP = 32_768;
/** Maximum characters of a text that is read in one turn. */
const SHORT = 2 * STEP;

/** Size of a piece of a text, which is parsed at once: whichever is reached first. */
interface PieceSize {
  readonly length: number;
  readonly values: number;
}

const PIECE: PieceSize = { length: 262_144, values: 4_096 };
const WHOLE: PieceSize = { length: Number.POSITIVE_INFINITY, values: Number.POSITIVE_INFINITY };

/** Reads a JSON text. Throws a `JsonFault` before anything is built from a text that exceeds its bounds. */
export function readJsonAtOnce(text: string, bounds: JsonBounds): unknown {
  const reading = new JsonReading(text, bounds, WHOLE);
  reading.advance(Number.POSITIVE_INFINITY);
  return reading.value;
}

/** Reads a JSON text over several turns of the event loop. Rejects as `readJsonAtOnce` throws. */
export async function readJson(text: string, bounds: JsonBounds): Promise<unknown> {
  return (await readCountedJson(text, bounds)).value;
}

/** The value of a JSON text, and the number of values in it, as `maxValues` counts them. */
export interface CountedJson {
  readonly value: unknown;
  readonly values: number;
}

/** Reads and counts as `readJson` does. */
export async function readCountedJson(text: string, bounds: JsonBounds): Promise<CountedJson> {
  const isShort = text.length <= SHORT;
  // Texts that arrive together would otherwise all begin in one turn.
  if (!isShort) await new Turns().next();
  const reading = new JsonReading(text, bounds, isShort ? WHOLE : PIECE);
  await doInTurns(steps(reading));
  return { value: reading.value, values: reading.values };
}

/**
 * Reads a JSON text as work that may pause. Throws as `readJsonAtOnce` does; a part of the value is built by then. `piece`: size
 * of what is parsed at once. Default: some milliseconds of work.
 */
export function* jsonReading(text: string, bounds: JsonBounds, piece = PIECE): Work<unknown> {
  const reading = new JsonReading(text, bounds, piece);
  yield* steps(reading);
  return reading.value;
}

function* steps(reading: JsonReading): Work<void> {
  while (!reading.advance(STEP)) yield;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

/** An open bracket. */
interface Container {
  readonly isObject: boolean;
  /** Names so far: one, or a set of several, since most objects are small. Undefined if they may repeat. */
  names: Set<string> | string | undefined;
  /** Current name in its quotes, as a range of the text. */
  nameStart: number;
  nameEnd: number;
  /** Index of the current item. */
  item: number;
  expectsName: boolean;
}

type Target = unknown[] | Record<string, unknown>;

/**
 * Reading of a text in pieces, each of them parsed by `JSON.parse`. One pass counts depth and values and finds where a long text
 * can be cut: at a comma, or where a bracket closes that an earlier piece opened. A piece is parsed between the brackets that are
 * open at its ends, and its values are added to the container in which it began.
 */
class JsonReading {
  readonly #text: string;
  readonly #bounds: JsonBounds;
  readonly #piece: PieceSize;
  readonly #open: Container[] = [];
  /** Values of the open containers that earlier pieces began, from the outermost. */
  readonly #begun: Target[] = [];
  #value: unknown;
  #index = 0;
  #values = 0;
  /** True inside of a string. */
  #isInString = false;
  #stringStart = 0;
  #repeated: readonly JsonStep[] | undefined;
  /** Start of the piece, and number of values before it. */
  #start = 0;
  #valuesBefore = 0;
  /** True if the piece begins after a whole value and not after a comma. */
  #isAfterValue = false;

  constructor(text: string, bounds: JsonBounds, piece: PieceSize) {
    this.#text = text;
    this.#bounds = bounds;
    this.#piece = piece;
  }

  get value(): unknown {
    return this.#value;
  }

  get values(): number {
    return this.#values;
  }

  /** Reads about so many characters. Returns true once the value is whole. Throws a `JsonFault`. */
  advance(length: number): boolean {
    const text = this.#text;
    const limit = this.#index + length;
    while (this.#index < limit) {
      if (this.#isInString) this.#readString(limit);
      else if (this.#index < text.length) this.#readStructure(Math.min(limit, text.length));
      else {
        this.#finish();
        return true;
      }
    }
    return false;
  }

  /** Reads to the start of a string, or to the limit. */
  #readStructure(limit: number): void {
    const text = this.#text;
    for (let index = this.#index; index < limit; index++) {
      const char = text.charCodeAt(index);
      if (char === QUOTE) {
        this.#isInString = true;
        this.#stringStart = index;
        this.#index = index + 1;
        return;
      }
      if (char === COMMA) this.#comma(index);
      else if (char === OPEN_BRACE || char === OPEN_BRACKET) this.#openBracket(char === OPEN_BRACE);
      else if (char === CLOSE_BRACE || char === CLOSE_BRACKET) this.#closeBracket(index, char === CLOSE_BRACE);
    }
    this.#index = limit;
  }

  /** Reads to the end of a string, or to the first quote in it behind the limit. */
  #readString(limit: number): void {
    const text = this.#text;
    while (this.#index < limit) {
      const end = text.indexOf('"', this.#index);
      this.#index = end < 0 ? text.length : end + 1;
      let backslash = end - 1;
      while (text.charCodeAt(backslash) === BACKSLASH) backslash--;
      if (end >= 0 && (end - backslash) % 2 === 0) continue;
      this.#isInString = false;
      const container = this.#open.at(-1);
      if (container?.expectsName) this.#noteName(container);
      return;
    }
  }

  #noteName(container: Container): void {
    container.expectsName = false;
    container.nameStart = this.#stringStart;
    container.nameEnd = this.#index;
    if (this.#bounds.hasUniqueMembers !== true) return;
    const name = this.#nameIn(container);
    const { names } = container;
    if (names === undefined) container.names = name;
    else if (typeof names !== "string" && !names.has(name)) names.add(name);
    else if (typeof names === "string" && names !== name) container.names = new Set([names, name]);
    else this.#repeated ??= this.#open.map((each) => (each.isObject ? this.#nameIn(each) : each.item));
  }

  // `"a"` and `"\u0061"` are the same name. The parser reports malformed escapes.
  #nameIn({ nameStart, nameEnd }: Container): string {
    const quoted = this.#text.slice(nameStart, nameEnd);
    if (!quoted.includes("\\")) return quoted.slice(1, -1);
    try {
      return JSON.parse(quoted) as string;
    } catch {
      return quoted;
    }
  }

  #comma(index: number): void {
    this.#count();
    const container = this.#open.at(-1);
    if (container === undefined) return;
    container.item += 1;
    container.expectsName = container.isObject;
    const { length, values } = this.#piece;
    if (index - this.#start >= length || this.#values - this.#valuesBefore >= values) this.#cut(index);
  }

  #openBracket(isObject: boolean): void {
    this.#count();
    const { maxDepth } = this.#bounds;
    this.#open.push({ isObject, names: undefined, nameStart: 0, nameEnd: 0, item: 0, expectsName: isObject });
    if (this.#open.length > maxDepth) throw new JsonFault("too_deep");
  }

  #closeBracket(index: number, isObject: boolean): void {
    this.#open.pop();
    if (this.#open.length < this.#begun.length) this.#closeBegun(index, isObject);
  }

  #count(): void {
    this.#values += 1;
    if (this.#values > this.#bounds.maxValues) throw new JsonFault("too_many_values");
  }

  /** Ends a piece at a comma. */
  #cut(index: number): void {
    let last = index - 1;
    while (isSpace(this.#text.charCodeAt(last))) last--;
    const char = this.#text.charCodeAt(last);
    // A bracket that is closed here would hide that a value is missing.
    if (char === OPEN_BRACE || char === OPEN_BRACKET) throw malformed(index);
    this.#take(index);
    for (let level = this.#begun.length; level < this.#open.length; level++) this.#begun.push(this.#begunAt(level));
    this.#begin(index + 1, false);
  }

  /** Returns the value of an open container that the last piece began. */
  #begunAt(level: number): Target {
    if (level === 0) return this.#value as Target;
    const parent = this.#begun[level - 1] as Target;
    return (Array.isArray(parent) ? parent.at(-1) : parent[this.#nameIn(this.#open[level - 1] as Container)]) as Target;
  }

  /** Ends a piece where a bracket closes that an earlier piece opened. */
  #closeBegun(index: number, isObject: boolean): void {
    if (Array.isArray(this.#begun.at(-1)) === isObject) throw malformed(index);
    this.#take(index);
    this.#begun.pop();
    this.#begin(index + 1, true);
  }

  #begin(start: number, isAfterValue: boolean): void {
    this.#start = start;
    this.#valuesBefore = this.#values;
    this.#isAfterValue = isAfterValue;
  }

  /** Parses the piece that ends at an index, and adds its values to the container in which it began. */
  #take(end: number): void {
    const text = this.#text;
    let start = this.#start;
    if (this.#isAfterValue) {
      const next = afterSpace(text, start);
      if (next >= end) return;
      if (text.charCodeAt(next) !== COMMA || this.#begun.length === 0) throw malformed(next);
      start = next + 1;
    }
    const closing = this.#open.slice(this.#begun.length).reverse();
    const closed = text.slice(start, end) + closing.map(({ isObject }) => (isObject ? "}" : "]")).join("");
    const target = this.#begun.at(-1);
    if (target === undefined) this.#value = parsed(closed, start);
    else if (afterSpace(text, start) >= end) throw malformed(end);
    else if (Array.isArray(target)) for (const item of parsed(`[${closed}]`, start - 1) as unknown[]) target.push(item);
    else addMembers(target, parsed(`{${closed}}`, start - 1) as Record<string, unknown>);
  }

  #finish(): void {
    const { length } = this.#text;
    if (this.#begun.length > 0) throw malformed(length);
    if (this.#start === 0) this.#value = parsed(this.#text, 0);
    else if (afterSpace(this.#text, this.#start) < length) throw malformed(this.#start);
    // The scan assumes valid JSON, so its finding counts only once the parser has accepted the text.
    if (this.#repeated !== undefined) throw new JsonFault("repeated_member", { path: this.#repeated });
  }
}

function addMembers(target: Record<string, unknown>, members: Record<string, unknown>): void {
  for (const name of Object.keys(members)) {
    const value = members[name];
    // An assignment would set the prototype.
    if (name === "__proto__") Object.defineProperty(target, name, { value, ...PLAIN });
    else target[name] = value;
  }
}

const PLAIN = { configurable: true, enumerable: true, writable: true };

/** Returns the index of the first character from `start` on that is no white space. */
function afterSpace(text: string, start: number): number {
  let index = start;
  while (isSpace(text.charCodeAt(index))) index++;
  return index;
}

/** Tests for white space of JSON. */
const isSpace = (char: number): boolean =>
  char === SPACE || (char >= 0x09 && char <= 0x0d && char !== 0x0b && char !== 0x0c);

/** Parses a text that begins at an index of the whole one. */
function parsed(text: string, start: number): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const position = /position (\d+)/.exec(String(error))?.[1];
    throw position === undefined ? new JsonFault("malformed") : malformed(start + Number(position));
  }
}

const malformed = (position: number): JsonFault => new JsonFault("malformed", { position });
