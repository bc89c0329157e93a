import { CHAR_CLASSES, DIGIT, LOCAL } from "./char-classes.ts";
import { monthBefore } from "./detectors/date-of-birth.ts";
import { MAX_LOCAL } from "./detectors/email.ts";
import { openerBefore } from "./number-span.ts";

/** Most units that any detector looks at before the place that it looks from. */
export const MAX_LOOK_BEHIND = 128;

/**
 * Where a value may begin at the earliest whose `@` or first digit stands at `index` or later: the word that goes on there
 * with the opening marks before it, or the name of a month.
 */
export function reachBefore(text: string, index: number): number {
  let start = index;
  while (start > 0 && index - start < MAX_LOCAL && isLocal(text.charCodeAt(start - 1))) start--;
  // A month matters to a day that follows it, or may.
  if (start === text.length || isDigit(text.charCodeAt(start))) start -= monthBefore(text, start).length;
  start -= openerBefore(text, start).length;
  // Not between the units of one character: whoever writes them out apart makes two of them.
  return start > 0 && isHighSurrogate(text.charCodeAt(start - 1)) ? start - 1 : start;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;

const isDigit = (unit: number): boolean => ((CHAR_CLASSES[unit] as number) & DIGIT) !== 0;
const isLocal = (unit: number): boolean => ((CHAR_CLASSES[unit] as number) & LOCAL) !== 0;
