import { ALNUM, classOf, DIGIT, LETTER, SEPARATOR } from "./char-classes.ts";
import { contextBefore, type TextView, unitAt } from "./text-view.ts";

/** Longest stretch of digits and separators that detectors see at once, in UTF-16 units. */
export const MAX_SPAN = 48;
const MAX_SEPARATORS = 3;
/** A token with more letters and digits than this before its first digit is none of any detector. */
const MAX_PREFIX = 8;
const HYPHEN = 0x2d;
const PLUS = 0x2b;
const PARENTHESIS = 0x28;

/** Where a value that is written with digits may stand: groups of digits with separators between. */
export interface NumberSpan {
  readonly view: TextView;
  /** Where the token begins that the first digit is in. */
  readonly start: number;
  /** The first digit. */
  readonly digit: number;
  /** `+` and `(` right before `start`, at most two. */
  readonly opener: string;
  /** From `start` to one unit past the last group, that the end of the value can be seen. */
  readonly text: string;
}

/** What stands before a span, without its opener. */
export const contextOf = ({ view, start, opener }: NumberSpan): string => contextBefore(view, start - opener.length);

/** Whether the span goes on from what stands before a hyphen, dot or slash, as the groups of a UUID do. */
export function isContinued({ view, start }: NumberSpan): boolean {
  return /[0-9A-Za-z][-./]$/.test(view.text.slice(Math.max(0, start - 2), start));
}

const classIn = (text: string, index: number): number => (index < 0 ? 0 : classOf(text.charCodeAt(index)));

/** The beginning of the token; -1 when `digit` is not its first digit, or too far inside. */
function tokenStart(text: string, digit: number): number {
  let start = digit;
  while ((classIn(text, start - 1) & LETTER) !== 0) {
    start--;
    if (digit - start > MAX_PREFIX) return -1;
  }
  return (classIn(text, start - 1) & DIGIT) === 0 ? start : -1;
}

/** `+` and `(` right before a number, as in `+49` and `(030)`. At most two. */
export function openerBefore(text: string, start: number): string {
  let first = start;
  while (first > 0 && start - first < 2 && isOpener(text.charCodeAt(first - 1))) first--;
  return text.slice(first, start);
}

const isOpener = (unit: number): boolean => unit === PLUS || unit === PARENTHESIS;

/** Where the next group begins; -1 when the number does not go on. */
function nextGroup(view: TextView, end: number): number {
  let index = end;
  while (index - end <= MAX_SEPARATORS && (classOf(unitAt(view, index)) & SEPARATOR) !== 0) index++;
  const gap = index - end;
  if (gap === 0 || gap > MAX_SEPARATORS) return -1;
  const bits = classOf(unitAt(view, index));
  const isCheckLetter = gap === 1 && unitAt(view, end) === HYPHEN && (bits & LETTER) !== 0;
  return (bits & DIGIT) !== 0 || isCheckLetter ? index : -1;
}

/** Reads the span of the number whose first digit is at `digit`. Undefined where none can begin. */
export function readNumberSpan(view: TextView, digit: number): NumberSpan | undefined {
  const { text } = view;
  const start = tokenStart(text, digit);
  if (start === -1) return undefined;
  let end = start;
  for (let group = start; group !== -1 && group < start + MAX_SPAN; group = nextGroup(view, end)) {
    end = group;
    while (end < start + MAX_SPAN && (classOf(unitAt(view, end)) & ALNUM) !== 0) end++;
    if (end === start + MAX_SPAN || (group !== start && (classIn(text, group) & LETTER) !== 0)) break;
  }
  unitAt(view, end);
  return { view, start, digit, opener: openerBefore(text, start), text: text.slice(start, end + 1) };
}
