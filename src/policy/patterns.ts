import { RE2JS, RE2Set } from "re2js";

/** Maximum instructions that one pattern compiles to; `[ab]{1,300}` compiles to about 600. */
export const MAX_PATTERN_SIZE = 1_000;
/**
 * Maximum bytes of the automaton of a set that stays in memory with its rule. Past them a search falls back to steps per
 * instruction.
 */
const KEPT_MEMORY = 32_768;

/** A pattern that compiles, or the reason why it does not, as the rest of a sentence about it. */
export type PatternResult =
  | { readonly kind: "compiled"; readonly size: number }
  | { readonly kind: "invalid"; readonly message: string };

/**
 * Checks an RE2 expression. One that is too large is refused before it is compiled: counted repeats make a short text grow
 * a thousandfold.
 */
export function checkPattern(pattern: string, { ignoreCase = true } = {}): PatternResult {
  const estimate = estimatedSize(pattern);
  if (estimate > 2 * MAX_PATTERN_SIZE) return tooLarge(estimate);
  try {
    const size = RE2JS.compile(ignoreCase ? searched(pattern) : pattern).programSize();
    return size > MAX_PATTERN_SIZE ? tooLarge(size) : { kind: "compiled", size };
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return { kind: "invalid", message: `is not an RE2 expression: ${cause.replace(/\s+/g, " ").trim()}` };
  }
}

/** Maximum characters of a pattern that a message shows. */
const MAX_SHOWN = 80;

/** Shortens a pattern for a message. */
export const shortened = (pattern: string): string =>
  pattern.length > MAX_SHOWN ? `${pattern.slice(0, MAX_SHOWN)}…` : pattern;

const tooLarge = (size: number): PatternResult => ({
  kind: "invalid",
  message: `compiles to about ${size} instructions, and at most ${MAX_PATTERN_SIZE} are allowed; lower its repeat counts`,
});

/** Compiles one pattern for a case-sensitive search. `checkPattern` MUST accept the pattern. */
const searched = (pattern: string): string => `(?i)${pattern}`;

/** Compiles one pattern for a search that heeds case. `checkPattern` MUST accept the pattern. */
export function compilePattern(pattern: string): { readonly found: (text: string) => boolean } {
  const set = new RE2Set(RE2Set.UNANCHORED, 0, KEPT_MEMORY);
  set.add(pattern);
  set.compile();
  return { found: (text) => set.match(text).length > 0 };
}

/** RE2 expressions that are searched for together, ignoring case, in one pass over a text. Immutable. */
export class PatternSet {
  readonly patterns: readonly string[];
  /** Instructions of all patterns. A search takes at most as many steps for each character. */
  readonly size: number;
  readonly #memory: number;
  #set: RE2Set | undefined;

  /** `checkPattern` MUST accept the patterns. `size` is the sum of their sizes; `memory` bounds the automaton in bytes. */
  constructor(patterns: readonly string[], size: number, memory = KEPT_MEMORY) {
    this.patterns = patterns;
    this.size = size;
    this.#memory = memory;
  }

  /** Returns the indices of the patterns that are found in a text, ascending. */
  search(text: string): readonly number[] {
    this.#set ??= this.#compile();
    return this.#set.match(text);
  }

  #compile(): RE2Set {
    const set = new RE2Set(RE2Set.UNANCHORED, 0, this.#memory);
    for (const pattern of this.patterns) set.add(searched(pattern));
    set.compile();
    return set;
  }
}

const REPEAT = /\{(\d+)(,(\d*))?\}/y;

/** Part of an expression, while its size is estimated. */
interface Part {
  sum: number;
  /** Size of the last atom, which a repeat multiplies. */
  last: number;
}

/** Estimates the instructions that an expression compiles to, from its text: counted repeats are what makes it large. */
function estimatedSize(pattern: string): number {
  const outer: Part[] = [];
  let part: Part = { sum: 0, last: 0 };
  const add = (size: number): void => {
    part.sum += size;
    part.last = size;
  };
  for (let index = 0; index < pattern.length; ) {
    const character = pattern[index];
    REPEAT.lastIndex = index;
    const repeat = character === "{" ? REPEAT.exec(pattern) : null;
    if (repeat !== null) {
      const [text, least = "0", , most = ""] = repeat;
      const times = most === "" ? Number(least) + 1 : 2 * Number(most) - Number(least);
      part.sum += part.last * Math.max(times - 1, 0);
      part.last *= Math.max(times, 1);
      index += text.length;
      continue;
    }
    if (character === "(") {
      outer.push(part);
      part = { sum: 2, last: 0 };
    } else if (character === ")") {
      const { sum } = part;
      part = outer.pop() ?? { sum: 0, last: 0 };
      add(sum);
    } else if (character === "*" || character === "+" || character === "?" || character === "|") part.sum++;
    else add(1);
    index = character === "[" ? endOfClass(pattern, index) : index + (character === "\\" ? 2 : 1);
  }
  return outer.reduce((sum, each) => sum + each.sum, part.sum);
}

/** Finds the index after a character class that begins at `start`; a `]` that comes first in it is a member. */
function endOfClass(pattern: string, start: number): number {
  let index = start + 1;
  if (pattern[index] === "^") index++;
  if (pattern[index] === "]") index++;
  while (index < pattern.length && pattern[index] !== "]") {
    if (pattern[index] === "\\") index += 2;
    else if (pattern.startsWith("[:", index))
      index = pattern.indexOf(":]", index) < 0 ? index + 2 : pattern.indexOf(":]", index) + 2;
    else index++;
  }
  return index + 1;
}
