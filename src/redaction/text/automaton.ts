import { CHAR_CLASSES, WORD } from "./char-classes.ts";
import { FOLDED_SPACE, FOLDED_UNITS } from "./fold.ts";

/** Which pattern ends at a node: 0 for none, else its tag. */
export const TAG_MASK = 0x7f;
/** Set where a shorter pattern ends too, at a node on the chain of failures. */
export const SUFFIX = 0x80;

/**
 * The automaton of Aho and Corasick ("Efficient string matching", CACM 18(6), 1975) over folded units. Nodes are numbered
 * breadth first, so that the children of a node lie side by side, ordered by code: 13 bytes a node.
 *
 * A path begins where a word may begin: one that begins with a WORD unit is no suffix of a path inside a word.
 */
export interface Automaton {
  /** The code of each UTF-16 unit; 0 for one that no pattern holds. */
  readonly codes: Uint16Array;
  /** The code of white space; 0 where no pattern holds any. */
  readonly spaceCode: number;
  /** The root's child for each code; 0 for none. */
  readonly roots: Int32Array;
  /** Where the children of each node begin; one longer than there are nodes. */
  readonly children: Int32Array;
  /** The code on the edge to each node. */
  readonly labels: Uint16Array;
  /** The longest proper suffix of each node that is a path. */
  readonly failures: Int32Array;
  /** How many units lead to each node. */
  readonly depths: Uint16Array;
  /** `TAG_MASK` and `SUFFIX`. */
  readonly flags: Uint8Array;
}

/** The child of a node by code; 0 for none. */
export function childOf({ children, labels }: Automaton, node: number, code: number): number {
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
  /** The folded unit of each code. */
  readonly units: readonly number[];
}

/** Dense codes in the order of units, for every unit that folds to one that a pattern holds. */
function alphabetOf(patterns: readonly string[]): Alphabet {
  const used = new Uint8Array(0x10000);
  for (const pattern of patterns) {
    for (let index = 0; index < pattern.length; index++) used[pattern.charCodeAt(index)] = 1;
  }
  const units = [0];
  const codeOfUnit = new Uint16Array(0x10000);
  for (let unit = 0; unit < 0x10000; unit++) {
    if (used[unit] === 1) codeOfUnit[unit] = units.push(unit) - 1;
  }
  return { codes: FOLDED_UNITS.map((folded) => codeOfUnit[folded] as number), units };
}

function commonPrefix(one: string, other: string): number {
  const limit = Math.min(one.length, other.length);
  let length = 0;
  while (length < limit && one.charCodeAt(length) === other.charCodeAt(length)) length++;
  return length;
}

/** One more than the different prefixes of patterns that are sorted. */
function countNodes(patterns: readonly string[]): number {
  let count = 1;
  for (const [index, pattern] of patterns.entries()) {
    count += pattern.length - commonPrefix(pattern, patterns[index - 1] ?? "");
  }
  return count;
}

/** Fills the trie, level by level: the patterns below a node are a range of the sorted ones. */
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

/** Builds the automaton of folded, non-empty patterns with their tags, 1 to 127. */
export function buildAutomaton(tags: ReadonlyMap<string, number>): Automaton {
  // Sorted by UTF-16 unit, which is the order of codes.
  const patterns = [...tags.keys()].sort();
  const { codes, units } = alphabetOf(patterns);
  const count = countNodes(patterns);
  const automaton: Automaton = {
    ...{ codes, spaceCode: codes[FOLDED_SPACE] as number },
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
