import type { NumberSpan } from "../number-span.ts";
import { isLuhn } from "./check-digits.ts";
import type { NumberDetector } from "./detector.ts";

const GAP = "[ .\\u00a0\\u2009\\u202f\\u2010-\\u2013-]";
const END = "(?![0-9A-Za-z])";

/** How cards are written, the longest first: in one piece or in the groups of the schemes, with one kind of separator. */
const SHAPES: readonly RegExp[] = [
  `\\d{13,19}${END}`,
  `\\d{4}(${GAP})\\d{4}\\1\\d{4}\\1\\d{4}\\1\\d{1,3}${END}`,
  `\\d{4}(${GAP})\\d{4}\\1\\d{4}\\1\\d{1,4}${END}`,
  `\\d{4}(${GAP})\\d{6}\\1\\d{4,5}${END}`,
].map((shape) => new RegExp(`^${shape}`));

/** Lengths by the ranges of issuer identification numbers that schemes publish. */
const ISSUERS: readonly (readonly [RegExp, readonly number[]])[] = [
  [/^4/, [13, 16, 19]],
  [/^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/, [16]],
  [/^3[47]/, [15]],
  [/^(?:30[0-5]|3[689])/, [14, 16, 17, 18, 19]],
  [/^(?:6011|64[4-9]|65)/, [16, 17, 18, 19]],
  [/^(?:352[89]|35[3-8])/, [16, 17, 18, 19]],
  [/^62/, [16, 17, 18, 19]],
  [/^(?:50|5[6-8]|6304|6759|676)/, [13, 14, 15, 16, 17, 18, 19]],
  [/^220[0-4]/, [16, 17, 18, 19]],
  [/^(?:81|82|9792)/, [16]],
];

const isCard = (digits: string): boolean =>
  ISSUERS.some(([prefix, lengths]) => prefix.test(digits) && lengths.includes(digits.length)) && isLuhn(digits);

/** Whether the digits go on from a decimal point, as in `0.4242424242424242`. */
const isFraction = ({ view, start }: NumberSpan): boolean =>
  /\d[.,]$/.test(view.text.slice(Math.max(0, start - 2), start));

/** Payment cards: 13 to 19 digits of a scheme that check (ISO/IEC 7812), in the groups that cards are written in. */
export const paymentCard: NumberDetector = {
  kind: "payment_card",
  trigger: "number",
  maxLength: 23,
  match(span) {
    if (span.text.length < 13 || span.start !== span.digit || isFraction(span)) return undefined;
    for (const shape of SHAPES) {
      const found = shape.exec(span.text)?.[0];
      if (found !== undefined && isCard(found.replace(/\D/g, ""))) {
        return { start: span.start, end: span.start + found.length };
      }
    }
    return undefined;
  },
};
