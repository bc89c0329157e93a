import { fold, isAscii } from "../../text/fold.ts";
import { wholeFrom } from "./numbers.ts";
import { MAX_LIST, type Run } from "./run.ts";
import { Fault, isList, type Value, wordOf } from "./values.ts";

/** Longest text that is looked for as the platform does; beyond, its time may grow with the product of both lengths. */
const MAX_NEEDLE = 250;
/** Characters that are compared in one step where both texts are walked. */
const WALKED = 4;
const SURROGATE = /[\ud800-\udfff]/;

/** Narrows a value to a text. */
export const isText = (value: Value | undefined): value is string => typeof value === "string";

/** The characters of a text by their index, which counts code points. */
class Characters {
  readonly #text: string;
  readonly #points: readonly string[] | undefined;

  constructor(run: Run, text: string) {
    run.reads(text.length);
    this.#text = text;
    if (SURROGATE.test(text)) {
      run.take(text.length / WALKED);
      this.#points = [...text];
    }
  }

  get length(): number {
    return this.#points?.length ?? this.#text.length;
  }

  /** Place in UTF-16 units of an index. */
  unitAt(index: number): number {
    if (this.#points === undefined) return index;
    return this.#points.slice(0, index).reduce((sum, { length }) => sum + length, 0);
  }

  /** Index of a place in UTF-16 units. */
  indexAt(unit: number): number {
    return this.#points === undefined || unit < 0 ? unit : [...this.#text.slice(0, unit)].length;
  }
}

/** Counts the characters of a text. */
export const sizeOfText = (run: Run, text: string): bigint => BigInt(new Characters(run, text).length);

/** Tests whether a text contains another. */
export function containsText(run: Run, text: string, needle: string): boolean {
  return unitOf(run, text, needle, 0) >= 0;
}

export function startsWithText(run: Run, text: string, needle: string): boolean {
  run.reads(needle.length);
  return text.startsWith(needle);
}

export function endsWithText(run: Run, text: string, needle: string): boolean {
  run.reads(needle.length);
  return text.endsWith(needle);
}

/** Finds the place of a text in another, in time that grows with their sum. */
function unitOf(run: Run, text: string, needle: string, from: number): number {
  if (needle.length <= MAX_NEEDLE) {
    const found = text.indexOf(needle, from);
    run.reads((found < 0 ? text.length : found) - from + needle.length);
    return found;
  }
  run.take((text.length - from + needle.length) / WALKED);
  return walk(
    text.length,
    from,
    needle.length,
    (unit) => text.charCodeAt(unit),
    (unit) => needle.charCodeAt(unit),
  );
}

/** Finds a sequence in another after Knuth, Morris and Pratt. */
function walk(
  length: number,
  from: number,
  wanted: number,
  at: (unit: number) => number,
  wantedAt: (unit: number) => number,
): number {
  const fallback = new Int32Array(wanted);
  for (let unit = 1, matched = 0; unit < wanted; unit++) {
    while (matched > 0 && wantedAt(unit) !== wantedAt(matched)) matched = fallback[matched - 1] ?? 0;
    if (wantedAt(unit) === wantedAt(matched)) matched++;
    fallback[unit] = matched;
  }
  for (let unit = from, matched = 0; unit < length; unit++) {
    while (matched > 0 && at(unit) !== wantedAt(matched)) matched = fallback[matched - 1] ?? 0;
    if (at(unit) === wantedAt(matched)) matched++;
    if (matched === wanted) return unit - wanted + 1;
  }
  return -1;
}

/** Finds the last place of a text in another that is at most `upTo`. */
function lastUnitOf(run: Run, text: string, needle: string, upTo: number): number {
  if (needle === "") return Math.min(upTo, text.length);
  // From behind: the platform compares the whole text at every place.
  run.take((text.length + needle.length) / WALKED);
  const length = Math.min(text.length, upTo + needle.length);
  const found = walk(
    length,
    0,
    needle.length,
    (unit) => text.charCodeAt(length - 1 - unit),
    (unit) => needle.charCodeAt(needle.length - 1 - unit),
  );
  return found < 0 ? -1 : length - found - needle.length;
}

const outside = (site: string): Fault => new Fault(site, "reads outside the text");

/** Returns the index that a value is if it lies in a text, from 0 to `last`. */
function indexFrom(value: Value, last: number, site: string): number | Fault {
  const index = wholeFrom(value);
  if (index === undefined) return new Fault(site, `takes a whole number, and ${wordOf(value)} is given`);
  return index >= 0 && index <= last ? index : outside(site);
}

export function charAt(run: Run, text: string, at: Value, site: string): Value {
  const characters = new Characters(run, text);
  const index = indexFrom(at, characters.length, site);
  return index instanceof Fault ? index : text.slice(characters.unitAt(index), characters.unitAt(index + 1));
}

export function substring(run: Run, text: string, from: Value, to: Value | undefined, site: string): Value {
  const characters = new Characters(run, text);
  const start = indexFrom(from, characters.length, site);
  if (start instanceof Fault) return start;
  const end = to === undefined ? characters.length : indexFrom(to, characters.length, site);
  if (end instanceof Fault) return end;
  if (start > end) return outside(site);
  const [first, last] = [characters.unitAt(start), characters.unitAt(end)];
  run.makesText(last - first);
  return text.slice(first, last);
}

export function indexOf(run: Run, text: string, needle: string, from: Value | undefined, site: string): Value {
  const characters = new Characters(run, text);
  const start = from === undefined ? 0 : indexFrom(from, characters.length - 1, site);
  if (start instanceof Fault) return start;
  return BigInt(characters.indexAt(unitOf(run, text, needle, characters.unitAt(start))));
}

export function lastIndexOf(run: Run, text: string, needle: string, from: Value | undefined, site: string): Value {
  const characters = new Characters(run, text);
  const start = from === undefined ? characters.length : indexFrom(from, characters.length - 1, site);
  if (start instanceof Fault) return start;
  return BigInt(characters.indexAt(lastUnitOf(run, text, needle, characters.unitAt(start))));
}

const changeCase = (run: Run, text: string, letters: RegExp, change: (letter: string) => string): string => {
  run.makesText(text.length);
  run.reads(text.length);
  return text.replace(letters, change);
};

export const lowerAscii = (run: Run, text: string): string =>
  changeCase(run, text, /[A-Z]+/g, (letters) => letters.toLowerCase());

export const upperAscii = (run: Run, text: string): string =>
  changeCase(run, text, /[a-z]+/g, (letters) => letters.toUpperCase());

/** White space as CEL removes it. */
const BLANK = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

export function trimText(run: Run, text: string): string {
  run.makesText(text.length);
  let start = 0;
  let end = text.length;
  while (start < end && BLANK.test(text.charAt(start))) start++;
  while (end > start && BLANK.test(text.charAt(end - 1))) end--;
  run.take((start + text.length - end) / WALKED);
  return text.slice(start, end);
}

/** Returns how many times at most; undefined stands for no limit, as a negative number does. */
function timesFrom(value: Value | undefined, site: string): number | Fault {
  if (value === undefined) return Number.POSITIVE_INFINITY;
  const times = wholeFrom(value);
  if (times === undefined) return new Fault(site, `takes a whole number, and ${wordOf(value)} is given`);
  return times < 0 ? Number.POSITIVE_INFINITY : times;
}

/** Splits a text at most so many times; every part and the rest come in order. */
function partsOf(run: Run, text: string, separator: string, times: number): readonly string[] {
  const parts: string[] = [];
  let from = 0;
  while (parts.length < times) {
    const isEmpty = separator === "";
    const character = isEmpty ? String.fromCodePoint(text.codePointAt(from) ?? 0) : "";
    const found = isEmpty ? from + character.length : unitOf(run, text, separator, from);
    if (found < 0 || (isEmpty && found >= text.length)) break;
    run.take(1);
    parts.push(text.slice(from, found));
    from = found + separator.length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function split(run: Run, text: string, separator: string, most: Value | undefined, site: string): Value {
  const parts = timesFrom(most, site);
  if (parts instanceof Fault) return parts;
  if (parts === 0 || (separator === "" && text === "")) return [];
  // One more than a list may have, so that a text with too many parts is not read to its end.
  const found = partsOf(run, text, separator, Math.min(parts - 1, MAX_LIST));
  run.makesList(found.length);
  run.reads(text.length);
  return found;
}

export function replace(run: Run, text: string, old: string, by: string, most: Value | undefined, site: string): Value {
  const times = timesFrom(most, site);
  if (times instanceof Fault) return times;
  if (times === 0) return text;
  if (old !== "") return joined(run, partsOf(run, text, old, times), by);
  // Before every character and at the end.
  const characters = text === "" ? [] : partsOf(run, text, "", times - 1);
  const isAtEnd = characters.length < times;
  return joined(run, ["", ...characters, ...(isAtEnd ? [""] : [])], by);
}

function joined(run: Run, parts: readonly string[], separator: string): string {
  const characters = parts.reduce((sum, { length }) => sum + length, separator.length * (parts.length - 1));
  run.makesText(Math.max(characters, 0));
  return parts.join(separator);
}

export function join(run: Run, list: Value, separator: string, site: string): Value {
  if (!isList(list)) return new Fault(site, `joins ${wordOf(list)}; \`join\` takes a list of texts`);
  run.take(list.length);
  if (!list.every(isText)) return new Fault(site, "joins a list with other values than texts");
  return joined(run, list, separator);
}

/** Returns the form in which other rules compare texts. */
export function foldText(run: Run, text: string): string {
  if (isAscii(text)) {
    run.makesText(text.length);
    return fold(text);
  }
  run.makesText(text.length);
  run.take(text.length / 2);
  const folded = fold(text);
  run.makesText(folded.length);
  return folded;
}
