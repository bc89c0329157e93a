import { contextOf, type NumberSpan } from "../number-span.ts";
import { isLuhn, isMod11And10, remainder, weightedSum } from "./check-digits.ts";
import { isCodiceFiscale } from "./codice-fiscale.ts";
import type { NumberDetector } from "./detector.ts";

/** The identity number of one country. */
interface NationalId {
  readonly name: string;
  /** How it is written. */
  readonly shape: RegExp;
  /** Its check, of letters and digits alone, letters in upper case. */
  readonly isValid: (id: string) => boolean;
  /** A word before it that it is found after. Undefined: it is found anywhere. */
  readonly context?: RegExp;
}

const END = "(?![0-9A-Za-z])";
const shape = (source: string): RegExp => new RegExp(`^(?:${source})${END}`, "i");
const LETTERS_OF_23 = "TRWAGMYFPDXBNJZSQVHLCKE";
const HENKILOTUNNUS = "0123456789ABCDEFHJKLMNPRSTUVWXY";

const isDay = (month: string, day: string): boolean =>
  Number(month) >= 1 && Number(month) <= 12 && Number(day) >= 1 && Number(day) <= 31;

/** Of the first ten digits exactly one is there twice or three times, the others at most once. */
function hasOneRepeated(digits: string): boolean {
  const counts = [...new Set(digits)].map((digit) => digits.split(digit).length - 1).filter((count) => count > 1);
  return counts.length === 1 && (counts[0] as number) <= 3;
}

const isDni = (id: string): boolean => {
  const number = id.slice(0, -1).replace(/^[XYZ]/, (letter) => String("XYZ".indexOf(letter)));
  return LETTERS_OF_23[Number(number) % 23] === id.at(-1);
};

/** Corsican departments `2A` and `2B` count as 19 and 18. */
const isNir = (id: string): boolean => {
  const number = id.slice(0, 13).replace("2A", "19").replace("2B", "18");
  return 97 - remainder(number, 97) === Number(id.slice(13));
};

const isCpf = (id: string): boolean => {
  if (/^(\d)\1*$/.test(id)) return false;
  const check = (count: number): number =>
    ((weightedSum(
      id,
      Array.from({ length: count }, (_, index) => count + 1 - index),
    ) *
      10) %
      11) %
    10;
  return check(9) === Number(id[9]) && check(10) === Number(id[10]);
};

const isPesel = (id: string): boolean =>
  isDay(String(Number(id.slice(2, 4)) % 20), id.slice(4, 6)) &&
  weightedSum(id, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]) % 10 === 0;

/** Coordination numbers have 60 added to the day. */
const isPersonnummer = (id: string): boolean => {
  const digits = id.slice(-10);
  return isDay(digits.slice(2, 4), String(Number(digits.slice(4, 6)) % 60)) && isLuhn(digits);
};

/** The check is over the first nine digits, for those born from 2000 on with a 2 before them. */
const isRijksregisternummer = (id: string): boolean => {
  const check = Number(id.slice(9));
  const fits = (number: string): boolean => 97 - remainder(number, 97) === check;
  return isDay(id.slice(2, 4), id.slice(4, 6)) && (fits(id.slice(0, 9)) || fits(`2${id.slice(0, 9)}`));
};

const isHenkilotunnus = (id: string): boolean => {
  const [, day = "", month = "", rest = "", check = ""] = /^(\d\d)(\d\d)(\d\d[0-9A-Z]*?\d{3})(.)$/.exec(id) ?? [];
  const number = `${day}${month}${rest.slice(0, 2)}${rest.slice(-3)}`;
  return isDay(month, day) && HENKILOTUNNUS[Number(number) % 31] === check;
};

const isBsn = (id: string): boolean => weightedSum(id, [9, 8, 7, 6, 5, 4, 3, 2, -1]) % 11 === 0 && Number(id) > 0;
const isSteuerId = (id: string): boolean => hasOneRepeated(id.slice(0, 10)) && isMod11And10(id);

const NATIONAL_IDS: readonly NationalId[] = [
  { name: "ES DNI, NIE", shape: shape("(?:\\d{8}|[XYZ]-?\\d{7})-?[A-Z]"), isValid: isDni },
  {
    name: "FR NIR",
    shape: shape("[1-478][ ]?\\d{2}[ ]?(?:0[1-9]|1[0-2]|[2-9]\\d)[ ]?(?:\\d{2}|2[AB])[ ]?\\d{3}[ ]?\\d{3}[ ]?\\d{2}"),
    isValid: isNir,
  },
  { name: "DE Steuer-ID", shape: shape("[1-9]\\d([ ]?)\\d{3}\\1\\d{3}\\1\\d{3}"), isValid: isSteuerId },
  {
    name: "NL BSN",
    shape: shape("\\d{8,9}|\\d{4}[. ]\\d{2}[. ]\\d{3}"),
    isValid: isBsn,
    context: /\bbsn\b|burgerservice|sofinummer/i,
  },
  { name: "IT codice fiscale", shape: shape("[A-Z]{6}[0-9A-Z]{10}"), isValid: isCodiceFiscale },
  { name: "PL PESEL", shape: shape("\\d{11}"), isValid: isPesel, context: /pesel/i },
  { name: "BR CPF", shape: shape("\\d{3}\\.\\d{3}\\.\\d{3}-\\d{2}"), isValid: isCpf },
  { name: "BR CPF, bare", shape: shape("\\d{11}"), isValid: isCpf, context: /\bcpf\b/i },
  { name: "SE personnummer", shape: shape("(?:\\d{2})?\\d{6}[-+]\\d{4}"), isValid: isPersonnummer },
  {
    name: "SE personnummer, bare",
    shape: shape("(?:\\d{2})?\\d{10}"),
    isValid: isPersonnummer,
    context: /person(?:nummer|nr|al identity)/i,
  },
  {
    name: "BE rijksregisternummer",
    shape: shape("\\d{2}\\.\\d{2}\\.\\d{2}-\\d{3}\\.\\d{2}"),
    isValid: isRijksregisternummer,
  },
  { name: "FI henkilötunnus", shape: shape("\\d{6}[-+A-FU-Y]\\d{3}[0-9A-Y]"), isValid: isHenkilotunnus },
  {
    name: "GB national insurance number",
    shape: new RegExp(`^[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\\d{6}[A-D]${END}`),
    isValid: isPrefixGiven,
  },
];

/** Prefixes that are never given out. */
function isPrefixGiven(id: string): boolean {
  return !["BG", "GB", "NK", "KN", "TN", "NT", "ZZ"].includes(id.slice(0, 2));
}

/** `X-1234567-L`: the letter before the first digit stands apart. */
function textWithLetter({ view, start, text }: NumberSpan): string | undefined {
  const letter = /(?:^|[^0-9A-Za-z])([XYZ]-)$/i.exec(view.text.slice(Math.max(0, start - 3), start))?.[1];
  return letter === undefined ? undefined : letter + text;
}

function longestIn(text: string, context: string): number {
  let longest = 0;
  for (const { shape, isValid, context: wanted } of NATIONAL_IDS) {
    const found = shape.exec(text)?.[0] ?? "";
    if (found.length <= longest || (wanted !== undefined && !wanted.test(context))) continue;
    if (isValid(found.replace(/[^0-9A-Za-z]/g, "").toUpperCase())) longest = found.length;
  }
  return longest;
}

/**
 * Identity numbers of persons in ten countries, by their check digits. Those that any number of their length fits too easily
 * are found only after a word that names them.
 */
export const nationalId: NumberDetector = {
  kind: "national_id",
  trigger: "number",
  maxLength: 21,
  match(span) {
    if (span.text.length < 8) return undefined;
    const context = contextOf(span);
    const apart = textWithLetter(span);
    const apartLength = apart === undefined ? 0 : longestIn(apart, context);
    if (apartLength > 0) return { start: span.start - 2, end: span.start - 2 + apartLength };
    const length = longestIn(span.text, context);
    return length === 0 ? undefined : { start: span.start, end: span.start + length };
  },
};
