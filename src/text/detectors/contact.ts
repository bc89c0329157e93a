import { isIPv6 } from "node:net";
import type { CountryCode } from "libphonenumber-js/max";
import { CHAR_CLASSES, classOf, LOCAL, WORD } from "../char-classes.ts";
import { contextOf, isContinued, type NumberSpan, type PartialText, unitAt } from "../partial-text.ts";
import type { AtSignDetector, NumberDetector } from "./detector.ts";
import type { PhoneLookups } from "./phone-lookups.ts";

/** Maximum lengths by RFC 5321 §4.5.3.1. Of a longer local part, only the end is used. */
export const MAX_LOCAL = 64;
const MAX_DOMAIN = 255;
const DOT = 0x2e;
const HYPHEN = 0x2d;

const MAIL_DOMAIN =
  /^(?:[\p{L}\p{M}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+(?:xn--[a-z0-9-]{1,59}|[\p{L}\p{M}]{2,63})/iu;
/** Extensions of file names such as `logo@2x.png`, which are not top-level domains. */
const FILE_NAME = /\.(?:png|jpe?g|gif|svg|webp)$/i;
const LEADING_MARKS = /^[.%+'_-]*/;

const isDomainUnit = (unit: number): boolean => unit === DOT || unit === HYPHEN || (classOf(unit) & WORD) !== 0;

/**
 * Finds e-mail addresses with a domain of at least two labels, including internationalised addresses (RFC 6531). Local parts may
 * not contain the rarest characters of RFC 5322, such as `=` and `/`, which precede addresses in URLs and code.
 */
export const email: AtSignDetector = {
  kind: "email",
  trigger: "at-sign",
  match(partial, at) {
    const { text } = partial;
    let first = at;
    while (first > 0 && at - first < MAX_LOCAL && ((CHAR_CLASSES[text.charCodeAt(first - 1)] as number) & LOCAL) !== 0)
      first--;
    const start = first + (LEADING_MARKS.exec(text.slice(first, at))?.[0].length ?? 0);
    if (start === at) return undefined;
    let end = at + 1;
    while (end - at <= MAX_DOMAIN && isDomainUnit(unitAt(partial, end))) end++;
    const domain = MAIL_DOMAIN.exec(text.slice(at + 1, end))?.[0];
    return domain === undefined || FILE_NAME.test(domain) ? undefined : { start, end: at + 1 + domain.length };
  },
};

/** Countries whose national numbers are found: with a leading `0`, and without. */
const WITH_ZERO: readonly CountryCode[] = ["DE", "GB", "FR", "NL", "AT", "CH", "IT", "SE", "BE"];
const WITHOUT_ZERO: readonly CountryCode[] = ["US", "ES", "IT", "PL", "BR"];
const MIN_DIGITS = 6;
const MAX_DIGITS = 17;
const MIN_PREFIXED_DIGITS = 12;
const PHONE_CONTEXT =
  /(?:\b(?:tel|telefon\p{L}*|telephone|phone|mobile|mobil|cell|handy\p{L}*|fax|call|ruf\p{L}*|whatsapp|sms|fon|portable|m[oó]vil|cellulare|tel[eé]fono|t[eé]l(?:[eé]phone)?|telefoon\p{L}*)(?![\p{L}\p{N}])|☎|📞|✆)[^\n]{0,16}$/iu;
/** North American notation, which is unambiguous. */
const NORTH_AMERICAN = /^(?:1[-. ])?(?:\d{3}\)[ -]?|\d{3}([-.]))\d{3}(?:\1|[-. ])\d{4}(?![0-9A-Za-z]|[-.]\d)/;
/** Notations with a `0` before the area code: area code and number, pairs, or three groups. */
const WITH_TRUNK_ZERO = [
  /^0[1-9]\d{1,4}\)?\s?[-/ ]\s?\d{5,8}(?![0-9A-Za-z])(?:-\d{1,4}(?![0-9A-Za-z]))?/,
  /^0[1-9](?:[ .-]\d\d){4}(?![0-9A-Za-z])/,
  /^0[1-9]\d{1,3}\)?[ -]\d{3,4}[ -]\d{3,4}(?![0-9A-Za-z])/,
];
const LATER_GROUP = /\d[ ./()-]{1,3}$/;

/** Ends of the groups of digits, the last one first. */
function groupEnds(text: string): readonly number[] {
  return [...text.matchAll(/\d+(?![0-9A-Za-z])/g)].map(({ index, 0: digits }) => index + digits.length).reverse();
}

const countDigits = (text: string): number => text.replace(/\D/g, "").length;

/** Length of the longest prefix that is a number. */
function longestNumber(text: string, isNumber: (number: string) => boolean): number {
  for (const end of groupEnds(text)) {
    const number = text.slice(0, end);
    const digits = countDigits(number);
    if (digits >= MIN_DIGITS && digits <= MAX_DIGITS && isNumber(number)) return end;
  }
  return 0;
}

const isNational = (number: string, lookups: PhoneLookups): boolean =>
  (number.startsWith("0") ? WITH_ZERO : WITHOUT_ZERO).some((country) => lookups.isValid(number, country));

/** Tests for the international form with `00` instead of `+`. A shorter text is more often something else. */
const isWithPrefix = (number: string, lookups: PhoneLookups): boolean =>
  countDigits(number) >= MIN_PREFIXED_DIGITS && lookups.isValid(`+${number.slice(2)}`);

function phoneLength(span: NumberSpan): number {
  const { text, opener } = span;
  const { lookups } = span.partial;
  if (opener.includes("+")) return longestNumber(text, (number) => lookups.isValid(`+${number}`));
  const context = contextOf(span);
  // A later group was already tried together with the first one.
  if (!LATER_GROUP.test(context) && PHONE_CONTEXT.test(context))
    return longestNumber(text, (number) => isNational(number, lookups));
  if (isContinued(span)) return 0;
  if (/^00 ?[1-9]\d/.test(text)) return longestNumber(text, (number) => isWithPrefix(number, lookups));
  const shaped = NORTH_AMERICAN.exec(text)?.[0];
  if (shaped !== undefined && lookups.isValid(shaped, "US")) return shaped.length;
  const found = WITH_TRUNK_ZERO.map((shape) => shape.exec(text)?.[0] ?? "");
  return Math.max(...found.map((number) => (number !== "" && isNational(number, lookups) ? number.length : 0)));
}

/**
 * Finds telephone numbers that libphonenumber accepts: in international form, in North American notation, with a leading zero and
 * an area code, and in any national form after a word for a telephone.
 */
export const phone: NumberDetector = {
  kind: "phone",
  trigger: "number",
  match(span) {
    if (span.start !== span.digit || span.text.length < MIN_DIGITS) return undefined;
    const length = phoneLength(span);
    if (length === 0) return undefined;
    const isClosed = span.text.slice(0, length).includes(")");
    const opener = isClosed ? span.opener : span.opener.replaceAll("(", "");
    return { start: span.start - opener.length, end: span.start + length };
  },
};

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const V4 = new RegExp(`^(?:${OCTET}\\.){3}${OCTET}(?![0-9A-Za-z]|[.-][0-9A-Za-z])`);
/** Prefix that marks four numbers as a version or section: a word for it, or a product with a slash, as in `Chrome/1.2.3.4`. */
const NUMBERING_BEFORE =
  /(?:\b(?:v|ver|version|release|build|rev|revision|section|sec|chapter|clause|rfc ?\d+)[^0-9A-Za-z]{0,3}|§ ?|[A-Za-z]\/|[.^~]|[=<>~]=\s?)$/i;
const NUMBERING_LENGTH = 15;
const V6_LENGTH = 39;

/** Tests for the address of a public network. */
type AddressTest = (address: string) => boolean;

const isV6Unit = (unit: number): boolean => unit !== -1 && /[0-9A-Fa-f:]/.test(String.fromCharCode(unit));

/** Returns the length of a public IPv6 address. All public blocks begin with a digit. */
function v6Length(partial: PartialText, start: number, isPublic: AddressTest): number {
  let end = start;
  while (end - start <= V6_LENGTH && isV6Unit(unitAt(partial, end))) end++;
  const address = partial.text.slice(start, end).replace(/(?<!:):$/, "");
  const isCutOff = /[0-9A-Za-z]/.test(String.fromCharCode(Math.max(0, unitAt(partial, end))));
  return !isCutOff && isIPv6(address) && isPublic(address) ? address.length : 0;
}

/**
 * Creates the detector of public IPv4 and IPv6 addresses. Addresses of private, local and documentation networks do not identify
 * anybody. Four numbers after a word for a version or section, or after `v`, `§`, `^`, `~`, `==`, `>=`, `<=` or a product's
 * slash, are not matched: `v1.2.3.4` stays, a bare `1.2.3.4` does not.
 */
export const createIpAddress = (isPublic: AddressTest): NumberDetector => ({
  kind: "ip_address",
  trigger: "number",
  match({ partial, start, text }) {
    const before = partial.text.slice(Math.max(0, start - NUMBERING_LENGTH), start);
    const v4 = V4.exec(text)?.[0];
    if (v4 !== undefined) {
      return isPublic(v4) && !NUMBERING_BEFORE.test(before) ? { start, end: start + v4.length } : undefined;
    }
    if (!/^[23][0-9A-Fa-f]{3}:$/.test(text.slice(0, 5)) || before.endsWith(":")) return undefined;
    const length = v6Length(partial, start, isPublic);
    return length === 0 ? undefined : { start, end: start + length };
  },
});
