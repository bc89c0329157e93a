import { invalidField } from "../../errors.ts";
import { type Automaton, buildAutomaton, childOf, TAG_MASK } from "./automaton.ts";
import type { Candidate } from "./candidate.ts";
import { CHAR_CLASSES, IGNORABLE, SPACE, WORD } from "./char-classes.ts";
import { foldedForms } from "./fold.ts";
import { PERSONAL_KINDS, type RegisteredValue } from "./types.ts";

/** Bounds of a registered value, in UTF-16 units as compared. One unit would scrub most texts away. */
const MIN_LENGTH = 2;
const MAX_LENGTH = 256;
/** White space and ignorable units in a row that a value may have in a text; a line break with its indentation fits. */
export const MAX_FILLING = 16;
/** Longest text that a registered value may have, in UTF-16 units. */
export const MAX_REGISTERED_SPAN: number = MAX_LENGTH * (1 + MAX_FILLING);
const RANK = 1;

/** Finds the values that a workspace registered. */
export interface RegisteredSearch {
  /**
   * Adds to `found` what lies between `from` and the end, and gives where the first value may begin that the end cuts
   * off; `text.length` when there is none or `isWhole`. `from` MUST be 0 or such a place of an earlier call.
   */
  search(text: string, from: number, isWhole: boolean, found: Candidate[]): number;
}

function tagsOf(values: readonly RegisteredValue[]): Map<string, number> {
  const tags = new Map<string, number>();
  for (const [index, { kind, value }] of values.entries()) {
    for (const form of foldedForms(value)) {
      if (form.length < MIN_LENGTH || form.length > MAX_LENGTH) {
        throw invalidField(`registered[${index}].value`, `must have ${MIN_LENGTH} to ${MAX_LENGTH} characters`);
      }
      if (!tags.has(form)) tags.set(form, 1 + PERSONAL_KINDS.indexOf(kind));
    }
  }
  return tags;
}

const classAt = (text: string, index: number): number => CHAR_CLASSES[text.charCodeAt(index)] as number;

/** Whether a word goes on at `index`: what stands before, past ignorable units, is part of one. */
function isInsideWord(text: string, index: number): boolean {
  let before = index - 1;
  while (before >= 0 && (classAt(text, before) & IGNORABLE) !== 0 && index - before <= MAX_FILLING) before--;
  return before >= 0 && (classAt(text, before) & WORD) !== 0;
}

/** Where the word ends that `index` is in: until there no path begins. */
function endOfWord(text: string, index: number): number {
  let end = index + 1;
  while (end < text.length && ((CHAR_CLASSES[text.charCodeAt(end)] as number) & WORD) !== 0) end++;
  return end;
}

/** Whether no word goes on after `index`. A word that the end cuts off may. */
function isEndOfWord(text: string, index: number, isWhole: boolean): boolean {
  if ((classAt(text, index) & WORD) === 0) return true;
  return index + 1 === text.length ? isWhole : (classAt(text, index + 1) & WORD) === 0;
}

/** Where the path of `depth` units begins that ends before `end`. */
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

/** Whether a path may begin at `index`: not inside of a word. */
const mayBegin = (text: string, index: number): boolean =>
  (classAt(text, index) & WORD) === 0 || !isInsideWord(text, index);

/** The node after the unit at `index`, which has this code. */
function step(automaton: Automaton, from: number, code: number, text: string, index: number): number {
  const { failures, roots } = automaton;
  for (let node = from; node !== 0; node = failures[node] as number) {
    const child = childOf(automaton, node, code);
    if (child !== 0) return child;
  }
  const root = roots[code] as number;
  return root !== 0 && mayBegin(text, index) ? root : 0;
}

/** Creates the search. Throws INVALID_FIELD for a value that is too short or too long. */
export function createRegisteredSearch(values: readonly RegisteredValue[]): RegisteredSearch {
  const automaton = buildAutomaton(tagsOf(values));
  const { codes, spaceCode, roots, labels, failures, depths, flags } = automaton;

  const report = (text: string, end: number, from: number, found: Candidate[]): void => {
    let node = from;
    while (((flags[node] as number) & TAG_MASK) === 0) node = failures[node] as number;
    // Shorter ones that end here are parts of this one, and their ends are as good as its.
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
        // A path goes on over filling: a run of white space is one step, the rest none.
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
