import { ALNUM, classOf, SEPARATOR, SPACE } from "../char-classes.ts";
import { type NumberSpan, unitAt } from "../partial-text.ts";
import { isLuhn, remainder } from "./check-digits.ts";
import type { NumberDetector } from "./detector.ts";

/** Length of IBANs by country, from the registry that SWIFT keeps for ISO 13616. */
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

/** ISO 7064, MOD 97-10: letters count from 10, the first four characters go to the end. */
function hasValidCheck(iban: string): boolean {
  const digits = `${iban.slice(4)}${iban.slice(0, 4)}`.replace(/[A-Z]/g, (letter) => String(letter.charCodeAt(0) - 55));
  return remainder(digits, 97) === 1;
}

/** Accepts spaces between groups, and a hyphen after a country in capitals only, since hexadecimal groups have hyphens. */
const isGap = (unit: number, country: string): boolean =>
  unit === HYPHEN
    ? country === country.toUpperCase()
    : (classOf(unit) & SPACE) !== 0 && (classOf(unit) & SEPARATOR) !== 0;

/** Finds IBANs (ISO 13616) in one piece or in groups of four, in any letter case. */
export const iban: NumberDetector = {
  kind: "iban",
  trigger: "number",
  match({ partial, start, digit }) {
    const country = partial.text.slice(start, digit);
    const length = IBAN_LENGTHS.get(country.toUpperCase());
    if (length === undefined) return undefined;
    let read = "";
    let index = start;
    while (read.length < length) {
      const bits = classOf(unitAt(partial, index));
      if ((bits & ALNUM) !== 0) read += partial.text[index];
      else if (read.length % GROUP !== 0 || !isGap(unitAt(partial, index), country)) return undefined;
      else if ((classOf(unitAt(partial, index + 1)) & ALNUM) === 0) return undefined;
      index++;
    }
    if ((classOf(unitAt(partial, index)) & ALNUM) !== 0) return undefined;
    return hasValidCheck(read.toUpperCase()) ? { start, end: index } : undefined;
  },
};

const CARD_GAP = "[ .\\u00a0\\u2009\\u202f\\u2010-\\u2013-]";
const END = "(?![0-9A-Za-z])";

/** Notations, the longest first: in one piece or in the groups of the schemes, with one kind of separator. */
const CARD_SHAPES: readonly RegExp[] = [
  `\\d{13,19}${END}`,
  `\\d{4}(${CARD_GAP})\\d{4}\\1\\d{4}\\1\\d{4}\\1\\d{1,3}${END}`,
  `\\d{4}(${CARD_GAP})\\d{4}\\1\\d{4}\\1\\d{1,4}${END}`,
  `\\d{4}(${CARD_GAP})\\d{6}\\1\\d{4,5}${END}`,
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

/** True if the digits follow a decimal point, as in `0.4242424242424242`. */
const isFraction = ({ partial, start }: NumberSpan): boolean =>
  /\d[.,]$/.test(partial.text.slice(Math.max(0, start - 2), start));

/** Finds payment cards: 13 to 19 digits of a scheme with a valid check (ISO/IEC 7812), in the groups of card notations. */
export const paymentCard: NumberDetector = {
  kind: "payment_card",
  trigger: "number",
  match(span) {
    if (span.text.length < 13 || span.start !== span.digit || isFraction(span)) return undefined;
    for (const shape of CARD_SHAPES) {
      const found = shape.exec(span.text)?.[0];
      if (found !== undefined && isCard(found.replace(/\D/g, ""))) {
        return { start: span.start, end: span.start + found.length };
      }
    }
    return undefined;
  },
};
