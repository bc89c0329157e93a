import { invalidField } from "../../errors.ts";
import { CHAR_CLASSES, IGNORABLE, SPACE, WORD } from "./char-classes.ts";
import { NORMALISED_SPACE, NORMALISED_UNITS, normalisedForms } from "./normalise.ts";
import { PERSONAL_KINDS, type RegisteredValue } from "./personal-kinds.ts";
import type { Candidate } from "./resolve-overlaps.ts";

/** Bounds of a registered value in normalised UTF-16 units. One unit would scrub most texts away. */
const MIN_LENGTH = 2;
const MAX_LENGTH = 256;
/** Maximum white space and ignorable units in a row within a value; a line break with its indentation fits. */
const MAX_FILLING = 16;
const RANK = 1;

/** Finds the registered values of a workspace. */
export interface RegisteredSearch {
  /**
   * Adds the values from `from` on to `found`. Returns the earliest start of a value that the end may cut off, or
   * `text.length` if there is none or the text `isWhole`. `from` MUST be 0 or the result of an earlier call.
   */
  search(text: string, from: number, isWhole: boolean, found: Candidate[]): number;
}

function createTags(values: readonly RegisteredValue[]): Map<string, number> {
  const tags = new Map<string, number>();
  for (const [index, { kind, value }] of values.entries()) {
    for (const form of normalisedForms(value)) {
      if (form.length < MIN_LENGTH || form.length > MAX_LENGTH) {
        throw invalidField(`registered[${index}].value`, `must have ${MIN_LENGTH} to ${MAX_LENGTH} characters`);
      }
      if (!tags.has(form)) tags.set(form, 1 + PERSONAL_KINDS.indexOf(kind));
    }
  }
  return tags;
}

const classAt = (text: string, index: number): number => CHAR_CLASSES[text.charCodeAt(index)] as number;

/** True if a word continues at `index`: the unit before it, past ignorable ones, is part of a word. */
function isInsideWord(text: string, index: number): boolean {
  let before = index - 1;
  while (before >= 0 && (classAt(text, before) & IGNORABLE) !== 0 && index - before <= MAX_FILLING) before--;
  return before >= 0 && (classAt(text, before) & WORD) !== 0;
}

/** End of the word around `index`; no path begins before it. */
function endOfWord(text: string, index: number): number {
  let end = index + 1;
  while (end < text.length && ((CHAR_CLASSES[text.charCodeAt(end)] as number) & WORD) !== 0) end++;
  return end;
}

/** True if the word ends after `index`. A word that the end cuts off may continue. */
function isEndOfWord(text: string, index: number, isWhole: boolean): boolean {
  if ((classAt(text, index) & WORD) === 0) return true;
  return index + 1 === text.length ? isWhole : (classAt(text, index + 1) & WORD) === 0;
}

/** Start of the path of `depth` units that ends before `end`. */
function startOfPath(text: string, end: number, depth: number): number {
  let index = end;
  let isSpaceCounted = false;
  for (let left = depth; left > 0; ) {
    const bits = classAt(text, --index);
    if ((bits & IGNORABLE) !== 0 || ((bits & SPACE) !== 0 && isSpaceCounted)) continue;
    isSpaceCounted = (bits & SPACE) !== 0;
    left--;
  }
  return index;
}

/** True if a path may begin at `index`, which is not inside a word. */
const mayBegin = (text: string, index: number): boolean =>
  (classAt(text, index) & WORD) === 0 || !isInsideWord(text, index);

/** Next node after the unit at `index`, which has this code. */
function step(automaton: Automaton, from: number, code: number, text: string, index: number): number {
  const { failures, roots } = automaton;
  for (let node = from; node !== 0; node = failures[node] as number) {
    const child = childOf(automaton, node, code);
    if (child !== 0) return child;
  }
  const root = roots[code] as number;
  return root !== 0 && mayBegin(text, index) ? root : 0;
}

/** Creates a search. Throws INVALID_FIELD for a value that is too short or too long. */
export function createRegisteredSearch(values: readonly RegisteredValue[]): RegisteredSearch {
  const automaton = buildAutomaton(createTags(values));
  const { codes, spaceCode, roots, labels, failures, depths, flags } = automaton;

  const report = (text: string, end: number, from: number, found: Candidate[]): void => {
    let node = from;
    while (((flags[node] as number) & TAG_MASK) === 0) node = failures[node] as number;
    // Shorter values that end here are parts of this one.
    const kind = PERSONAL_KINDS[((flags[node] as number) & TAG_MASK) - 1];
    found.push({ kind, start: startOfPath(text, end, depths[node] as number), end, rank: RANK });
  };

  return {
    search(text, from, isWhole, found) {
      const end = text.length;
      let node = 0;
      let filling = 0;
      for (let index = from; index < end; index++) {
        const unit = text.charCodeAt(index);
        const code = codes[unit] as number;
        if (node === 0 && roots[code] === 0) continue;
        const bits = CHAR_CLASSES[unit] as number;
        filling = (bits & (SPACE | IGNORABLE)) === 0 ? 0 : filling + 1;
        // A path continues over filling: a run of white space is one step, ignorable units are none.
        if (filling > 0 && ((bits & IGNORABLE) !== 0 || labels[node] === spaceCode)) {
          if (filling > MAX_FILLING) node = 0;
          continue;
        }
        node = step(automaton, node, code, text, index);
        if (node === 0 && (bits & WORD) !== 0) index = endOfWord(text, index) - 1;
        else if (flags[node] !== 0 && isEndOfWord(text, index, isWhole)) report(text, index + 1, node, found);
      }
      return isWhole || node === 0 ? end : startOfPath(text, end, depths[node] as number);
    },
  };
}

/** Bits of a node's flags with the tag of the pattern that ends there; 0: none does. */
const TAG_MASK = 0x7f;
/** Set if a shorter pattern ends there too, at a node on the chain of failures. */
const SUFFIX = 0x80;

/**
 * Automaton of Aho and Corasick ("Efficient string matching", CACM 18(6), 1975) over normalised units. Nodes are numbered
 * breadth first, so that the children of a node lie side by side, ordered by code: 13 bytes a node.
 *
 * A path begins where a word may begin: one that begins with a WORD unit is no suffix of a path inside a word.
 */
interface Automaton {
  /** Code of each UTF-16 unit; 0: no pattern contains it. */
  readonly codes: Uint16Array;
  /** Code of white space; 0: no pattern contains any. */
  readonly spaceCode: number;
  /** Child of the root for each code; 0: none. */
  readonly roots: Int32Array;
  /** Index of the first child of each node, and the number of nodes at the end. */
  readonly children: Int32Array;
  /** Code on the edge to each node. */
  readonly labels: Uint16Array;
  /** Longest proper suffix of each node that is a path. */
  readonly failures: Int32Array;
  /** Number of units that lead to each node. */
  readonly depths: Uint16Array;
  /** `TAG_MASK` and `SUFFIX`. */
  readonly flags: Uint8Array;
}

/** Child of a node by code; 0: none. */
function childOf({ children, labels }: Automaton, node: number, code: number): number {
  let low = children[node] as number;
  let high = (children[node + 1] as number) - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((labels[middle] as number) < code) low = middle + 1;
    else high = middle;
  }
  return low === high && labels[low] === code ? low : 0;
}

interface Alphabet {
  readonly codes: Uint16Array;
  /** Normalised unit of each code. */
  readonly units: readonly number[];
}

/** Creates dense codes in the order of units, for every unit that a pattern contains in its normalised form. */
function createAlphabet(patterns: readonly string[]): Alphabet {
  const used = new Uint8Array(0x10000);
  for (const pattern of patterns) {
    for (let index = 0; index < pattern.length; index++) used[pattern.charCodeAt(index)] = 1;
  }
  const units = [0];
  const codeOfUnit = new Uint16Array(0x10000);
  for (let unit = 0; unit < 0x10000; unit++) {
    if (used[unit] === 1) codeOfUnit[unit] = units.push(unit) - 1;
  }
  return { codes: NORMALISED_UNITS.map((unit) => codeOfUnit[unit] as number), units };
}

function commonPrefix(one: string, other: string): number {
  const limit = Math.min(one.length, other.length);
  let length = 0;
  while (length < limit && one.charCodeAt(length) === other.charCodeAt(length)) length++;
  return length;
}

/** Counts the distinct prefixes of sorted patterns, the empty one included. */
function countNodes(patterns: readonly string[]): number {
  let count = 1;
  for (const [index, pattern] of patterns.entries()) {
    count += pattern.length - commonPrefix(pattern, patterns[index - 1] ?? "");
  }
  return count;
}

/** Fills the trie level by level: the patterns below a node are a range of the sorted ones. Returns the parents. */
function fillTrie(automaton: Automaton, patterns: readonly string[], tags: ReadonlyMap<string, number>): Int32Array {
  const { codes, children, labels, depths, flags } = automaton;
  const count = labels.length;
  const parents = new Int32Array(count);
  const starts = new Int32Array(count);
  const ends = new Int32Array(count);
  ends[0] = patterns.length;
  let next = 1;
  for (let node = 0; node < count; node++) {
    children[node] = next;
    const depth = depths[node] as number;
    const end = ends[node] as number;
    let index = starts[node] as number;
    const first = patterns[index];
    if (first !== undefined && first.length === depth) {
      flags[node] = tags.get(first) ?? 0;
      index++;
    }
    while (index < end) {
      const unit = (patterns[index] as string).charCodeAt(depth);
      starts[next] = index;
      while (index < end && (patterns[index] as string).charCodeAt(depth) === unit) index++;
      ends[next] = index;
      labels[next] = codes[unit] as number;
      depths[next] = depth + 1;
      parents[next] = node;
      next++;
    }
  }
  children[count] = next;
  return parents;
}

function fillFailures(automaton: Automaton, parents: Int32Array, isWord: (code: number) => boolean): void {
  const { roots, labels, failures, flags } = automaton;
  const failureOf = (node: number): number => {
    const code = labels[node] as number;
    const parent = parents[node] as number;
    if (parent === 0) return 0;
    for (let suffix = failures[parent] as number; suffix !== 0; suffix = failures[suffix] as number) {
      const child = childOf(automaton, suffix, code);
      if (child !== 0) return child;
    }
    return isWord(code) && isWord(labels[parent] as number) ? 0 : (roots[code] as number);
  };
  for (let node = 1; node < labels.length; node++) {
    failures[node] = failureOf(node);
    if (flags[failures[node] as number] !== 0) flags[node] = (flags[node] as number) | SUFFIX;
  }
}

/** Builds the automaton of normalised, non-empty patterns with tags from 1 to 127. */
function buildAutomaton(tags: ReadonlyMap<string, number>): Automaton {
  // Sorted by UTF-16 unit, which is the order of codes.
  const patterns = [...tags.keys()].sort();
  const { codes, units } = createAlphabet(patterns);
  const count = countNodes(patterns);
  const automaton: Automaton = {
    ...{ codes, spaceCode: codes[NORMALISED_SPACE] as number },
    roots: new Int32Array(units.length),
    children: new Int32Array(count + 1),
    labels: new Uint16Array(count),
    failures: new Int32Array(count),
    depths: new Uint16Array(count),
    flags: new Uint8Array(count),
  };
  const parents = fillTrie(automaton, patterns, tags);
  for (let node = automaton.children[0] as number; node < (automaton.children[1] as number); node++) {
    automaton.roots[automaton.labels[node] as number] = node;
  }
  fillFailures(automaton, parents, (code) => ((CHAR_CLASSES[units[code] as number] as number) & WORD) !== 0);
  return automaton;
}
