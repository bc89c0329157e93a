import { ALNUM, classOf, DIGIT, LETTER, SEPARATOR } from "./char-classes.ts";
import type { PhoneLookups } from "./detectors/phone-lookups.ts";

/** A text that may continue. Detectors read it through `unitAt`, which records when they reached the end. */
export interface PartialText {
  readonly text: string;
  /** Set once a unit past the end was requested. */
  isOpen: boolean;
  /** Lookups of telephone numbers in the whole text. */
  readonly lookups: PhoneLookups;
}

/** Returns the UTF-16 unit at an index; -1 beyond the end. */
export function unitAt(partial: PartialText, index: number): number {
  if (index < partial.text.length) return partial.text.charCodeAt(index);
  partial.isOpen = true;
  return -1;
}

/** Units of context that detectors see before a value. */
const CONTEXT_LENGTH = 48;

/** Context before an index. */
export function contextBefore({ text }: PartialText, index: number): string {
  return text.slice(Math.max(0, index - CONTEXT_LENGTH), index);
}

/** Maximum UTF-16 units of a number span. */
const MAX_SPAN = 48;
const MAX_SEPARATORS = 3;
/** Maximum letters of a token before its first digit; no detector needs more. */
const MAX_PREFIX = 8;
const HYPHEN = 0x2d;
const PLUS = 0x2b;
const PARENTHESIS = 0x28;

/** Groups of digits with separators between them, which may be a value. */
export interface NumberSpan {
  readonly partial: PartialText;
  /** Start of the token with the first digit. */
  readonly start: number;
  /** Index of the first digit. */
  readonly digit: number;
  /** `+` and `(` directly before `start`, at most two. */
  readonly opener: string;
  /** Text from `start` to one unit beyond the last group, so that the end of a value is visible. */
  readonly text: string;
}

/** Context before a span and its opener. */
export const contextOf = ({ partial, start, opener }: NumberSpan): string =>
  contextBefore(partial, start - opener.length);

/** True if the span continues a token before a hyphen, dot or slash, as the groups of a UUID do. */
export function isContinued({ partial, start }: NumberSpan): boolean {
  return /[0-9A-Za-z][-./]$/.test(partial.text.slice(Math.max(0, start - 2), start));
}

const classIn = (text: string, index: number): number => (index < 0 ? 0 : classOf(text.charCodeAt(index)));

/** Returns the start of the token; -1 if `digit` is not its first digit or is too far inside. */
function tokenStart(text: string, digit: number): number {
  let start = digit;
  while ((classIn(text, start - 1) & LETTER) !== 0) {
    start--;
    if (digit - start > MAX_PREFIX) return -1;
  }
  return (classIn(text, start - 1) & DIGIT) === 0 ? start : -1;
}

/** Returns `+` and `(` directly before a number, as in `+49` and `(030)`, at most two. */
export function openerBefore(text: string, start: number): string {
  let first = start;
  while (first > 0 && start - first < 2 && isOpener(text.charCodeAt(first - 1))) first--;
  return text.slice(first, start);
}

const isOpener = (unit: number): boolean => unit === PLUS || unit === PARENTHESIS;

/** Returns the start of the next group; -1 if the number ends. */
function nextGroup(partial: PartialText, end: number): number {
  let index = end;
  while (index - end <= MAX_SEPARATORS && (classOf(unitAt(partial, index)) & SEPARATOR) !== 0) index++;
  const gap = index - end;
  if (gap === 0 || gap > MAX_SEPARATORS) return -1;
  const bits = classOf(unitAt(partial, index));
  const isCheckLetter = gap === 1 && unitAt(partial, end) === HYPHEN && (bits & LETTER) !== 0;
  return (bits & DIGIT) !== 0 || isCheckLetter ? index : -1;
}

/** Reads the span of the number whose first digit is at `digit`; undefined if no number can begin there. */
export function readNumberSpan(partial: PartialText, digit: number): NumberSpan | undefined {
  const { text } = partial;
  const start = tokenStart(text, digit);
  if (start === -1) return undefined;
  let end = start;
  for (let group = start; group !== -1 && group < start + MAX_SPAN; group = nextGroup(partial, end)) {
    end = group;
    while (end < start + MAX_SPAN && (classOf(unitAt(partial, end)) & ALNUM) !== 0) end++;
    if (end === start + MAX_SPAN || (group !== start && (classIn(text, group) & LETTER) !== 0)) break;
  }
  unitAt(partial, end);
  return { partial, start, digit, opener: openerBefore(text, start), text: text.slice(start, end + 1) };
}
