import type { IsAllowed } from "./allow-list.ts";
import type { Candidate, Range } from "./candidate.ts";
import { CHAR_CLASSES, DIGIT, TRIGGER } from "./char-classes.ts";
import type { AtSignDetector, Detector, NumberDetector } from "./detectors/index.ts";
import { readNumberSpan } from "./number-span.ts";
import { reachBefore } from "./reach.ts";
import type { RegisteredSearch } from "./registered.ts";
import type { TextView } from "./text-view.ts";

const AT_SIGN = 0x40;
/** After placeholders and registered values. */
const FIRST_RANK = 2;

/** What a text is scanned for. */
export interface ScanParts {
  /** In the order of their rank. */
  readonly detectors: readonly Detector[];
  /** Undefined when nothing is registered. */
  readonly registered: RegisteredSearch | undefined;
  readonly isAllowed: IsAllowed;
}

/**
 * Finds candidates, in one pass for registered values and one for detectors. Adds to `found` every candidate that begins at
 * `from` or later and before the index that it gives back; of later ones some. Whatever follows the text changes none of
 * the former. `from` MUST be 0 or such an index. When the text `isWhole` the index is its length.
 */
export type Scan = (text: string, from: number, isWhole: boolean, found: Candidate[]) => number;

const isDigit = (unit: number): boolean => ((CHAR_CLASSES[unit] as number) & DIGIT) !== 0;

/** The next `@` or digit; every other unit costs one look at its class. */
function nextTrigger(text: string, from: number): number {
  let index = from;
  while (index < text.length && ((CHAR_CLASSES[text.charCodeAt(index)] as number) & TRIGGER) === 0) index++;
  return index;
}

interface Ranked<D extends Detector> {
  readonly detector: D;
  readonly rank: number;
}

/** Creates the scan. */
export function createScan({ detectors, registered, isAllowed }: ScanParts): Scan {
  const ranked = detectors.map((detector, index) => ({ detector, rank: FIRST_RANK + index }));
  const atSign = ranked.filter((each): each is Ranked<AtSignDetector> => each.detector.trigger === "at-sign");
  const number = ranked.filter((each): each is Ranked<NumberDetector> => each.detector.trigger === "number");

  const add = (found: Candidate[], text: string, each: Ranked<Detector>, range: Range | undefined): void => {
    if (range === undefined || isAllowed(text.slice(range.start, range.end))) return;
    found.push({ kind: each.detector.kind, start: range.start, end: range.end, rank: each.rank });
  };
  const lookAtSign = (view: TextView, index: number, found: Candidate[]): void => {
    for (const each of atSign) add(found, view.text, each, each.detector.match(view, index));
  };
  const lookAtNumber = (view: TextView, index: number, isWhole: boolean, found: Candidate[]): void => {
    const span = readNumberSpan(view, index);
    // A number that the end cuts off is looked at when the rest is there, not after every chunk.
    if (span === undefined || (view.isOpen && !isWhole)) return;
    for (const each of number) add(found, view.text, each, each.detector.match(span));
  };

  /** Looks from every `@` and first digit. Stops at the first that what follows the text may change. */
  const detect = (text: string, from: number, isWhole: boolean, found: Candidate[]): number => {
    const view: TextView = { text, isOpen: false };
    for (let index = nextTrigger(text, from); index < text.length; index = nextTrigger(text, index + 1)) {
      if (text.charCodeAt(index) === AT_SIGN) lookAtSign(view, index, found);
      else if (index === 0 || !isDigit(text.charCodeAt(index - 1))) lookAtNumber(view, index, isWhole, found);
      if (view.isOpen && !isWhole) return reachBefore(text, index);
    }
    return isWhole ? text.length : reachBefore(text, text.length);
  };

  return (text, from, isWhole, found) => {
    const safe = unquoted(() => detect(text, from, isWhole, found));
    return registered === undefined ? safe : Math.min(safe, registered.search(text, from, isWhole, found));
  };
}

/** Lets the failure of a detector through without its message and cause, which may quote the text. */
function unquoted<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Error(`a detector failed with ${error instanceof Error ? error.name : "no error"}`);
  }
}
