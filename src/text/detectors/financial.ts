import { ALNUM, classOf, DIGIT, SEPARATOR, SPACE } from "../char-classes.ts";
import { type NumberSpan, type PartialText, unitAt } from "../partial-text.ts";
import { isLuhn, remainder } from "./check-digits.ts";
import type { NumberDetector } from "./detector.ts";

/** Lengths of IBANs by country, from SWIFT's registry for ISO 13616. */
const IBAN_LENGTHS: ReadonlyMap<string, number> = new Map(
  [
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29",
    "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20",
    "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29",
    "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30",
  ]
    .flatMap((line) => line.split(" "))
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);
const GROUP = 4;
const HYPHEN = 0x2d;
const UNDERSCORE = 0x5f;

/** Tests the check digits (ISO 7064, MOD 97-10): letters count from 10, and the first four characters move to the end. */
function hasValidCheck(iban: string): boolean {
  const digits = `${iban.slice(4)}${iban.slice(0, 4)}`.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return remainder(digits, 97) === 1;
}

/** Maximum white space and signs between groups. */
const MAX_GAP = 3;
const isGapUnit = (unit: number): boolean => (classOf(unit) & (SPACE | SEPARATOR)) !== 0 || unit === UNDERSCORE;
const isHyphen = (unit: number): boolean => unit === HYPHEN || (unit >= 0x2010 && unit <= 0x2013);

/**
 * Returns the end of the gap that begins at an index: the index itself without a gap, and -1 if the gap is too long or nothing
 * follows it.
 */
function gapEnd(partial: PartialText, start: number): number {
  let end = start;
  while (end - start <= MAX_GAP && isGapUnit(unitAt(partial, end))) end++;
  if (end === start) return start;
  return end - start > MAX_GAP || (classOf(unitAt(partial, end)) & ALNUM) === 0 ? -1 : end;
}

/**
 * Finds IBANs (ISO 13616) in one piece or in groups of four, in any letter case, also directly after other letters. Groups with
 * hyphens need a country code in capitals, since hexadecimal groups have hyphens too.
 */
export const iban: NumberDetector = {
  kind: "iban",
  trigger: "number",
  match({ partial, start, digit }) {
    const first = Math.max(start, digit - 2);
    const country = partial.text.slice(first, digit);
    const length = IBAN_LENGTHS.get(country.toUpperCase());
    if (length === undefined) return undefined;
    const allowsHyphens = country === country.toUpperCase();
    let read = "";
    let index = first;
    while (read.length < length) {
      if ((classOf(unitAt(partial, index)) & ALNUM) !== 0) {
        read += partial.text[index++];
        continue;
      }
      const end = gapEnd(partial, index);
      if (read.length % GROUP !== 0 || end <= index) return undefined;
      if (!allowsHyphens && isHyphen(unitAt(partial, index))) return undefined;
      index = end;
    }
    if ((classOf(unitAt(partial, index)) & ALNUM) !== 0) return undefined;
    // Letters of both cases after other letters are probably base64.
    if (first > start && read !== read.toUpperCase()) return undefined;
    return hasValidCheck(read.toUpperCase()) ? { start: first, end: index } : undefined;
  },
};

/** Groups of digits in the notations of card schemes, besides a single piece. */
const CARD_GROUPS = /^(?:4,4,4,[1-4]|4,4,4,4,[1-3]|4,6,[45])$/;
/** Groups that may be the beginning of such a notation. */
const CARD_BEGIN = /^4(?:,4(?:,4(?:,4)?)?|,6)?$/;
const MIN_CARD = 13;
const MAX_CARD = 19;

/** Lengths by the published ranges of issuer identification numbers. */
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

/** True if the digits follow a decimal point, as in `0.4242424242424242`. */
const isFraction = ({ partial, start }: NumberSpan): boolean =>
  /\d[.,]$/.test(partial.text.slice(Math.max(0, start - 2), start));

/** Returns the groups of digits from an index on, with their ends, as long as they may be those of a card. */
function readGroups(partial: PartialText, digit: number): { readonly digits: string[]; readonly ends: number[] } {
  const [digits, ends]: [string[], number[]] = [[], []];
  let count = 0;
  let lengths = "";
  let gap: string | undefined;
  for (let index = digit; count <= MAX_CARD; ) {
    let group = "";
    while ((classOf(unitAt(partial, index)) & DIGIT) !== 0 && group.length <= MAX_CARD) group += partial.text[index++];
    if (group === "") break;
    count += group.length;
    digits.push(group);
    ends.push(index);
    // Digits directly before a letter are something else.
    if ((classOf(unitAt(partial, index)) & ALNUM) !== 0) {
      digits.pop();
      ends.pop();
      break;
    }
    lengths += lengths === "" ? group.length : `,${group.length}`;
    // A text of many short numbers would otherwise be read again for each of them.
    if (!CARD_BEGIN.test(lengths)) break;
    const next = gapEnd(partial, index);
    if (next <= index) break;
    const found = partial.text.slice(index, next);
    // All gaps must be equal: numbers in the columns of a table are not the groups of one number.
    if (gap !== undefined && gap !== found) break;
    gap = found;
    index = next;
  }
  return { digits, ends };
}

const isNotation = (groups: readonly string[]): boolean =>
  groups.length === 1 || CARD_GROUPS.test(groups.map(({ length }) => length).join(","));

/**
 * Finds payment cards: 13 to 19 digits of a scheme with a valid check digit (ISO/IEC 7812), in one piece or in the groups of card
 * notations, with the same one to three signs between them, also directly after letters.
 */
export const paymentCard: NumberDetector = {
  kind: "payment_card",
  trigger: "number",
  match(span) {
    const { partial, digit } = span;
    if (isFraction(span)) return undefined;
    const { digits, ends } = readGroups(partial, digit);
    for (let count = digits.length; count > 0; count--) {
      const groups = digits.slice(0, count);
      const number = groups.join("");
      const isLong = number.length >= MIN_CARD && number.length <= MAX_CARD;
      if (isLong && isNotation(groups) && isCard(number)) return { start: digit, end: ends[count - 1] as number };
    }
    return undefined;
  },
};
