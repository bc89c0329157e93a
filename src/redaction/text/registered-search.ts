import { invalidField } from "../../errors.ts";
import { CHAR_CLASSES, IGNORABLE, SPACE, WORD } from "../../text/char-classes.ts";
import { NORMALISED_SPACE, NORMALISED_UNITS, normalisedForms } from "../../text/normalise.ts";
import type { PersonalKind, RegisteredValue } from "../../text/personal-kinds.ts";
import type { Candidate } from "./resolve-overlaps.ts";

/** Bounds of a registered value in normalised UTF-16 units. A value of one unit would scrub most texts away. */
const MIN_LENGTH = 2;
const MAX_LENGTH = 256;
/** Maximum white space and ignorable units in a row within a value: enough for a line break with its indentation. */
const MAX_FILLING = 16;
const RANK = 1;

/** Finds the registered values of a workspace. */
export interface RegisteredSearch {
  /**
   * Adds the values from index `from` on to `found`; of values with the same start only the longest. Returns the start of the
   * first value that the end of the text may cut off, else `text.length`, which is always returned for a text that `isWhole`.
   * `from` MUST be 0 or the result of an earlier call.
   */
  search(text: string, from: number, isWhole: boolean, found: Candidate[]): number;
}

/** Creates a search. Throws INVALID_FIELD for a value that is too short or too long. */
export function createRegisteredSearch(values: readonly RegisteredValue[]): RegisteredSearch {
  return new SortedSearch(kindsByPattern(values), "whole-words");
}

/** Creates a search for a secret of at least 2 characters, which is also found inside words. */
export function createSecretSearch(secret: string): RegisteredSearch {
  return new SortedSearch(new Map([...normalisedForms(secret)].map((form) => [form, "other"])), "anywhere");
}

function kindsByPattern(values: readonly RegisteredValue[]): ReadonlyMap<string, PersonalKind> {
  const kinds = new Map<string, PersonalKind>();
  for (const [index, { kind, value }] of values.entries()) {
    for (const form of normalisedForms(value)) {
      if (form.length < MIN_LENGTH || form.length > MAX_LENGTH) {
        throw invalidField(`registered[${index}].value`, `must have ${MIN_LENGTH} to ${MAX_LENGTH} characters`);
      }
      if (!kinds.has(form)) kinds.set(form, kind);
    }
  }
  return kinds;
}

/** Index range of sorted patterns; `high` is exclusive. */
interface Slice {
  readonly low: number;
  readonly high: number;
}

const EMPTY: Slice = { low: 0, high: 0 };
/** Units of a prefix that are looked up in an index; binary search reads the rest. */
const INDEXED_UNITS = 3;

/** Returns the key of a prefix with one more unit; the empty prefix has the key 0. */
const prefixKey = (prefix: number, depth: number, unit: number): number => prefix + (unit + 1) * 0x10001 ** depth;

/** Result of a match at a start: `end` is -1 without a match, and `isOpen` says that later text may change the result. */
interface Match {
  readonly end: number;
  readonly pattern: number;
  readonly isOpen: boolean;
}

/** Places in a text where values are found. */
type Places = "whole-words" | "anywhere";

/**
 * Search over sorted patterns. From every start it reads on while some patterns begin with the text; these are adjacent in the
 * order.
 */
class SortedSearch implements RegisteredSearch {
  readonly #kinds: ReadonlyMap<string, PersonalKind>;
  readonly #isInWords: boolean;
  /** Sorted by UTF-16 unit. */
  readonly #patterns: readonly string[];
  /** Patterns by the keys of their first units. */
  readonly #slices = new Map<number, Slice>();

  constructor(kinds: ReadonlyMap<string, PersonalKind>, places: Places) {
    this.#kinds = kinds;
    this.#isInWords = places === "anywhere";
    this.#patterns = [...kinds.keys()].sort();
    for (const [index, pattern] of this.#patterns.entries()) {
      let key = 0;
      for (let depth = 0; depth < Math.min(pattern.length, INDEXED_UNITS); depth++) {
        key = prefixKey(key, depth, pattern.charCodeAt(depth));
        const low = this.#slices.get(key)?.low ?? index;
        this.#slices.set(key, { low, high: index + 1 });
      }
    }
  }

  search(text: string, from: number, isWhole: boolean, found: Candidate[]): number {
    for (let index = from; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      const isWord = !this.#isInWords && ((CHAR_CLASSES[unit] as number) & WORD) !== 0;
      const key = prefixKey(0, 0, NORMALISED_UNITS[unit] as number);
      if (this.#slices.has(key) && !(isWord && isInsideWord(text, index))) {
        const { end, pattern, isOpen } = this.#match(text, index, key, isWhole);
        if (isOpen) return index;
        const kind = this.#kinds.get(this.#patterns[pattern] ?? "");
        if (end !== -1) found.push({ kind, start: index, end, rank: RANK });
      }
      if (isWord) index = endOfWord(text, index) - 1;
    }
    return text.length;
  }

  #match(text: string, start: number, first: number, isWhole: boolean): Match {
    let key = first;
    let slice = EMPTY;
    let depth = 1;
    let filling = 0;
    let isSpaceLast = false;
    let [end, pattern] = [-1, -1];
    for (let index = start + 1; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      const bits = CHAR_CLASSES[unit] as number;
      filling = (bits & (SPACE | IGNORABLE)) === 0 ? 0 : filling + 1;
      if (filling > MAX_FILLING) return { end, pattern, isOpen: false };
      // A run of white space is one unit of a pattern; ignorable units do not count.
      if ((bits & IGNORABLE) !== 0 || (filling > 0 && isSpaceLast)) continue;
      const normalised = NORMALISED_UNITS[unit] as number;
      if (depth < INDEXED_UNITS) {
        key = prefixKey(key, depth, normalised);
        slice = this.#slices.get(key) ?? EMPTY;
      } else slice = this.#narrow(slice, depth, normalised);
      if (slice.low === slice.high) return { end, pattern, isOpen: false };
      depth++;
      isSpaceLast = normalised === NORMALISED_SPACE;
      if (this.#patterns[slice.low]?.length === depth && (this.#isInWords || isEndOfWord(text, index, isWhole))) {
        [end, pattern] = [index + 1, slice.low];
      }
    }
    return { end, pattern, isOpen: !isWhole };
  }

  /** Returns the patterns of a slice with this unit at a depth. */
  #narrow(slice: Slice, depth: number, unit: number): Slice {
    const low = this.#firstAbove(slice, depth, unit - 1);
    return { low, high: this.#firstAbove({ low, high: slice.high }, depth, unit) };
  }

  /** Returns the first pattern of a slice whose unit at a depth is greater than `unit`. */
  #firstAbove({ low, high }: Slice, depth: number, unit: number): number {
    let [first, after] = [low, high];
    while (first < after) {
      const middle = (first + after) >>> 1;
      if (this.#unitAt(middle, depth) <= unit) first = middle + 1;
      else after = middle;
    }
    return first;
  }

  /** Returns the unit of a pattern at a depth; -1 beyond its end, in accordance with the order. */
  #unitAt(pattern: number, depth: number): number {
    const text = this.#patterns[pattern] as string;
    return depth < text.length ? text.charCodeAt(depth) : -1;
  }
}

const classAt = (text: string, index: number): number => CHAR_CLASSES[text.charCodeAt(index)] as number;

/** True if `index` is inside a word: the previous unit, apart from ignorable ones, is part of a word. */
function isInsideWord(text: string, index: number): boolean {
  let before = index - 1;
  while (before >= 0 && (classAt(text, before) & IGNORABLE) !== 0 && index - before <= MAX_FILLING) before--;
  return before >= 0 && (classAt(text, before) & WORD) !== 0;
}

/** Returns the end of the word around `index`. */
function endOfWord(text: string, index: number): number {
  let end = index + 1;
  while (end < text.length && (classAt(text, end) & WORD) !== 0) end++;
  return end;
}

/** True if the word ends after `index`. A word at the end of a partial text may continue. */
function isEndOfWord(text: string, index: number, isWhole: boolean): boolean {
  if ((classAt(text, index) & WORD) === 0) return true;
  return index + 1 === text.length ? isWhole : (classAt(text, index + 1) & WORD) === 0;
}
