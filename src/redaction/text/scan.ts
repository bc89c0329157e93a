import { CHAR_CLASSES, DIGIT, LOCAL, TRIGGER } from "../../text/char-classes.ts";
import { detectableFrom } from "../../text/detectable.ts";
import { MAX_LOCAL } from "../../text/detectors/contact.ts";
import type { AtSignDetector, Detector, NumberDetector } from "../../text/detectors/detector.ts";
import { monthBefore } from "../../text/detectors/identity.ts";
import type { PhoneLookups } from "../../text/detectors/phone-lookups.ts";
import { openerBefore, type PartialText, readNumberSpan } from "../../text/partial-text.ts";
import type { Range } from "../../text/personal-kinds.ts";
import type { RegisteredSearch } from "./registered-search.ts";
import type { Candidate } from "./resolve-overlaps.ts";

/** Maximum units that a detector looks behind its trigger, and as many again for invisible units between them. */
export const MAX_LOOK_BEHIND = 128;
export const MAX_FOLDED_LOOK_BEHIND = 4_096;
const AT_SIGN = 0x40;
/** First rank of a detector, after the ranks of placeholders and registered values. */
const FIRST_RANK = 2;

/** Parts of a scan. */
export interface ScanParts {
  /** Detectors in the order of their rank. */
  readonly detectors: readonly Detector[];
  /** Search for registered values; undefined if nothing is registered. */
  readonly registered: RegisteredSearch | undefined;
  /** Tests for a detected value that is not personal. */
  readonly isAllowed: (value: string) => boolean;
}

/**
 * Finds candidates and returns the index up to which they are final. Adds to `found` every candidate that starts between `from`
 * and that index, whatever text follows, and possibly later ones. `from` MUST be 0 or a returned index. For a text that `isWhole`
 * the index is its length. `state` belongs to the whole text.
 */
export type Scan = (text: string, from: number, isWhole: boolean, found: Candidate[], state: ScanState) => number;

/** State of the scan of a whole text. */
export interface ScanState {
  readonly lookups: PhoneLookups;
  /** True if the text is its own detectable form. */
  readonly isPlain: boolean;
}

const isDigit = (unit: number): boolean => ((CHAR_CLASSES[unit] as number) & DIGIT) !== 0;
const isLocal = (unit: number): boolean => ((CHAR_CLASSES[unit] as number) & LOCAL) !== 0;
const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
/** True if a text ends inside a surrogate pair. */
const endsInPair = (text: string): boolean => isHighSurrogate(text.charCodeAt(text.length - 1));

/** Returns the index of the next `@` or digit. */
function nextTrigger(text: string, from: number): number {
  let index = from;
  while (index < text.length && ((CHAR_CLASSES[text.charCodeAt(index)] as number) & TRIGGER) === 0) index++;
  return index;
}

/**
 * Returns the earliest start of a value whose trigger is at `index` or later: the word around `index` with its opening marks, or
 * the name of a month.
 */
function earliestStart(text: string, index: number): number {
  let start = index;
  while (start > 0 && index - start < MAX_LOCAL && isLocal(text.charCodeAt(start - 1))) start--;
  // A month counts only before a day, which may not have arrived yet.
  if (start === text.length || isDigit(text.charCodeAt(start))) start -= monthBefore(text, start).length;
  start -= openerBefore(text, start).length;
  // Surrogate pairs stay together, since a caller may encode each piece separately.
  return start > 0 && isHighSurrogate(text.charCodeAt(start - 1)) ? start - 1 : start;
}

interface Ranked<D extends Detector> {
  readonly detector: D;
  readonly rank: number;
}

/** Creates a scan: one pass for detectors and one for registered values. */
export function createScan({ detectors, registered, isAllowed }: ScanParts): Scan {
  const ranked = detectors.map((detector, index) => ({ detector, rank: FIRST_RANK + index }));
  const atSign = ranked.filter((each): each is Ranked<AtSignDetector> => each.detector.trigger === "at-sign");
  const number = ranked.filter((each): each is Ranked<NumberDetector> => each.detector.trigger === "number");

  const add = (found: Candidate[], text: string, each: Ranked<Detector>, range: Range | undefined): void => {
    if (range === undefined || isAllowed(text.slice(range.start, range.end))) return;
    found.push({ kind: each.detector.kind, start: range.start, end: range.end, rank: each.rank });
  };
  const matchAtSign = (partial: PartialText, index: number, found: Candidate[]): void => {
    for (const each of atSign) add(found, partial.text, each, each.detector.match(partial, index));
  };
  const matchNumber = (partial: PartialText, index: number, isWhole: boolean, found: Candidate[]): void => {
    const span = readNumberSpan(partial, index);
    // A number at the end of a partial text waits for its rest, instead of being tried after every chunk.
    if (span === undefined || (partial.isOpen && !isWhole)) return;
    for (const each of number) add(found, partial.text, each, each.detector.match(span));
  };

  /** Tries every `@` and first digit. Stops at the first one whose result later text may change. */
  const detect: Scan = (text, from, isWhole, found, { lookups }) => {
    if (detectors.length === 0) return isWhole || !endsInPair(text) ? text.length : text.length - 1;
    const partial: PartialText = { text, isOpen: false, lookups };
    for (let index = nextTrigger(text, from); index < text.length; index = nextTrigger(text, index + 1)) {
      if (text.charCodeAt(index) === AT_SIGN) matchAtSign(partial, index, found);
      else if (index === 0 || !isDigit(text.charCodeAt(index - 1))) matchNumber(partial, index, isWhole, found);
      if (partial.isOpen && !isWhole) return earliestStart(text, index);
    }
    return isWhole ? text.length : earliestStart(text, text.length);
  };

  const scanPlain: Scan = (text, from, isWhole, found, state) => {
    const safe = withoutQuotes(() => detect(text, from, isWhole, found, state));
    return registered === undefined ? safe : Math.min(safe, registered.search(text, from, isWhole, found));
  };

  /** Scans the detectable form, and returns positions in the original. */
  const scanFolded: Scan = (text, from, isWhole, found, state) => {
    // Half of a pair may become a digit with its other half.
    const isCut = !isWhole && endsInPair(text);
    const { text: folded, starts, ends } = detectableFrom(isCut ? text.slice(0, -1) : text);
    const first = starts.findIndex((start) => start >= from);
    const here: Candidate[] = [];
    const safe = scanPlain(folded, first === -1 ? folded.length : first, isWhole, here, state);
    for (const { start, end, ...candidate } of here)
      found.push({ ...candidate, start: starts[start] as number, end: ends[end - 1] as number });
    if (isWhole) return text.length;
    return safe < folded.length ? (starts[safe] as number) : isCut ? text.length - 1 : text.length;
  };

  return (text, from, isWhole, found, state) =>
    (state.isPlain ? scanPlain : scanFolded)(text, from, isWhole, found, state);
}

/** Replaces an error by one without message and cause, which may quote the text. */
function withoutQuotes<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`a detector failed with ${error instanceof Error ? error.name : "no error"}`);
  }
}
