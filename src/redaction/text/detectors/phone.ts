import { type CountryCode, isValidPhoneNumber } from "libphonenumber-js/max";
import { contextOf, isContinued, type NumberSpan } from "../number-span.ts";
import type { NumberDetector } from "./detector.ts";

/** Whose numbers are found in their national form: those that begin with a `0`, and the others. */
const WITH_ZERO: readonly CountryCode[] = ["DE", "GB", "FR", "NL", "AT", "CH", "IT", "SE", "BE"];
const WITHOUT_ZERO: readonly CountryCode[] = ["US", "ES", "IT", "PL", "BR"];
const MIN_DIGITS = 6;
const MAX_DIGITS = 17;
const MIN_PREFIXED_DIGITS = 12;
const CONTEXT =
  /(?:\b(?:tel|telefon\p{L}*|telephone|phone|mobile|mobil|cell|handy\p{L}*|fax|call|ruf\p{L}*|whatsapp|sms|fon|portable|m[oó]vil|cellulare|tel[eé]fono|t[eé]l(?:[eé]phone)?|telefoon\p{L}*)(?![\p{L}\p{N}])|☎|📞|✆)[^\n]{0,16}$/iu;
/** As North America writes its numbers; nothing else is written so. */
const NORTH_AMERICAN = /^(?:1[-. ])?(?:\d{3}\)[ -]?|\d{3}([-.]))\d{3}(?:\1|[-. ])\d{4}(?![0-9A-Za-z]|[-.]\d)/;
/** As numbers are written that begin with a `0` before the area: area and number, pairs, or three groups. */
const WITH_TRUNK_ZERO = [
  /^0[1-9]\d{1,4}\)?\s?[-/ ]\s?\d{5,8}(?![0-9A-Za-z])(?:-\d{1,4}(?![0-9A-Za-z]))?/,
  /^0[1-9](?:[ .-]\d\d){4}(?![0-9A-Za-z])/,
  /^0[1-9]\d{1,3}\)?[ -]\d{3,4}[ -]\d{3,4}(?![0-9A-Za-z])/,
];
const LATER_GROUP = /\d[ ./()-]{1,3}$/;

/** Where the groups of digits end, the last one first. */
function groupEnds(text: string): readonly number[] {
  return [...text.matchAll(/\d+(?![0-9A-Za-z])/g)].map(({ index, 0: digits }) => index + digits.length).reverse();
}

const countDigits = (text: string): number => text.replace(/\D/g, "").length;

/** The longest beginning that is a number by one of the tests. */
function longest(text: string, isNumber: (number: string) => boolean): number {
  for (const end of groupEnds(text)) {
    const number = text.slice(0, end);
    const digits = countDigits(number);
    if (digits >= MIN_DIGITS && digits <= MAX_DIGITS && isNumber(number)) return end;
  }
  return 0;
}

const isNational = (number: string): boolean =>
  (number.startsWith("0") ? WITH_ZERO : WITHOUT_ZERO).some((country) => isValidPhoneNumber(number, country));

/** With `00` for the `+`. Shorter ones are more often numbers of something else. */
const isWithPrefix = (number: string): boolean =>
  countDigits(number) >= MIN_PREFIXED_DIGITS && isValidPhoneNumber(`+${number.slice(2)}`);

function lengthOf(span: NumberSpan): number {
  const { text, opener } = span;
  if (opener.includes("+")) return longest(text, (number) => isValidPhoneNumber(`+${number}`));
  const context = contextOf(span);
  // From the first group on everything was tried, and each trial takes 10 us.
  if (!LATER_GROUP.test(context) && CONTEXT.test(context)) return longest(text, isNational);
  if (isContinued(span)) return 0;
  if (/^00 ?[1-9]\d/.test(text)) return longest(text, isWithPrefix);
  const shaped = NORTH_AMERICAN.exec(text)?.[0];
  if (shaped !== undefined && isValidPhoneNumber(shaped, "US")) return shaped.length;
  const found = WITH_TRUNK_ZERO.map((shape) => shape.exec(text)?.[0] ?? "");
  return Math.max(...found.map((number) => (number !== "" && isNational(number) ? number.length : 0)));
}

/**
 * Telephone numbers that libphonenumber takes for valid: in international form, in the forms of North America and of a
 * leading zero and an area, and in any national form after a word for a telephone.
 */
export const phone: NumberDetector = {
  kind: "phone",
  trigger: "number",
  maxLength: 2 + 40,
  match(span) {
    if (span.start !== span.digit || span.text.length < MIN_DIGITS) return undefined;
    const length = lengthOf(span);
    if (length === 0) return undefined;
    const isClosed = span.text.slice(0, length).includes(")");
    const opener = isClosed ? span.opener : span.opener.replaceAll("(", "");
    return { start: span.start - opener.length, end: span.start + length };
  },
};
