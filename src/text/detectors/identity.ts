import { classOf, LETTER, SEPARATOR, SPACE, WORD } from "../char-classes.ts";
import { contextBefore, contextOf, isContinued, type NumberSpan, type PartialText, unitAt } from "../partial-text.ts";
import { isLuhn, isMod11And10, remainder, weightedSum } from "./check-digits.ts";
import type { NumberDetector } from "./detector.ts";

const END = "(?![0-9A-Za-z])";

const DASHED = /^(\d{3})[-\u2010-\u2013](\d{2})[-\u2010-\u2013](\d{4})(?![0-9A-Za-z]|-\d)/;
const LOOSE = /^(\d{3})[ .\u00a0]?(\d{2})[ .\u00a0]?(\d{4})(?![0-9A-Za-z])/;
const SSN_CONTEXT = /\bssn\b|social security/i;
/** Numbers that were never issued but printed on sample cards (SSA, "Social Security Cards Issued by Woolworth"). */
const SAMPLES = ["078-05-1120", "219-09-9999"];

/** Tests by the SSA's rules: no part is all zeros, and the area is not 666 and below 900. */
function isIssued([, area = "", group = "", serial = ""]: RegExpExecArray): boolean {
  if (area === "000" || area === "666" || area >= "900" || group === "00" || serial === "0000") return false;
  return !SAMPLES.includes(`${area}-${group}-${serial}`);
}

/** Finds social security numbers of the United States: with hyphens anywhere, without them only if the context names them. */
export const usSsn: NumberDetector = {
  kind: "us_ssn",
  trigger: "number",
  match(span) {
    if (span.start !== span.digit || isContinued(span)) return undefined;
    const found = DASHED.exec(span.text) ?? (SSN_CONTEXT.test(contextOf(span)) ? LOOSE.exec(span.text) : null);
    if (found === null || !isIssued(found)) return undefined;
    return { start: span.start, end: span.start + found[0].length };
  },
};

const CODICE_FISCALE = /^[A-Z]{6}[0-9L-NP-V]{2}[A-EHLMPR-T][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z]$/;
/** Values of characters at odd places (decree of 23 December 1976), for `0` to `9` and equally for `A` to `J`. */
const ODD_FIRST = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21];
/** The same values for `K` to `Z`. */
const ODD_REST = [2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
const ODD = [...ODD_FIRST, ...ODD_REST];

const orderOf = (character: string): number =>
  character >= "A" ? character.charCodeAt(0) - 65 : character.charCodeAt(0) - 48;

/** Tests the check character of an Italian tax code of 16 characters, also with letters instead of digits. */
function isCodiceFiscale(code: string): boolean {
  if (!CODICE_FISCALE.test(code)) return false;
  let sum = 0;
  for (const [index, character] of [...code.slice(0, 15)].entries()) {
    const order = orderOf(character);
    sum += index % 2 === 0 ? (ODD[order] as number) : order;
  }
  return String.fromCharCode(65 + (sum % 26)) === code[15];
}

/** Identity number of one country. */
interface NationalId {
  readonly name: string;
  /** Notation. */
  readonly shape: RegExp;
  /** Tests the letters and digits without separators, letters in upper case. */
  readonly isValid: (id: string) => boolean;
  /** Context that must precede the number; undefined finds it anywhere. */
  readonly context?: RegExp;
}

const shape = (source: string): RegExp => new RegExp(`^(?:${source})${END}`, "i");
const LETTERS_OF_23 = "TRWAGMYFPDXBNJZSQVHLCKE";
const HENKILOTUNNUS = "0123456789ABCDEFHJKLMNPRSTUVWXY";

const isDay = (month: string, day: string): boolean =>
  Number(month) >= 1 && Number(month) <= 12 && Number(day) >= 1 && Number(day) <= 31;

/** True if exactly one digit occurs two or three times and the others at most once. */
function hasOneRepeated(digits: string): boolean {
  const counts = [...new Set(digits)].map((digit) => digits.split(digit).length - 1).filter((count) => count > 1);
  return counts.length === 1 && (counts[0] as number) <= 3;
}

const isDni = (id: string): boolean => {
  const number = id.slice(0, -1).replace(/^[XYZ]/, (letter) => String("XYZ".indexOf(letter)));
  return LETTERS_OF_23[Number(number) % 23] === id.at(-1);
};

/** Tests a French NIR. The Corsican departments `2A` and `2B` count as 19 and 18. */
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

/** Tests a Swedish number. Coordination numbers have 60 added to the day. */
const isPersonnummer = (id: string): boolean => {
  const digits = id.slice(-10);
  return isDay(digits.slice(2, 4), String(Number(digits.slice(4, 6)) % 60)) && isLuhn(digits);
};

/** Tests a Belgian number. The check covers the first nine digits, with a 2 before them for births from 2000 on. */
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
    isValid: isPrefixIssued,
  },
];

/** Tests for a prefix that is issued. */
function isPrefixIssued(id: string): boolean {
  return !["BG", "GB", "NK", "KN", "TN", "NT", "ZZ"].includes(id.slice(0, 2));
}

/** Returns the text with the letter before the first digit, which may be separate: `X-1234567-L`. */
function textWithLetter({ partial, start, text }: NumberSpan): string | undefined {
  const letter = /(?:^|[^0-9A-Za-z])([XYZ]-)$/i.exec(partial.text.slice(Math.max(0, start - 3), start))?.[1];
  return letter === undefined ? undefined : letter + text;
}

function longestId(text: string, context: string): number {
  let longest = 0;
  for (const { shape, isValid, context: wanted } of NATIONAL_IDS) {
    const found = shape.exec(text)?.[0] ?? "";
    if (found.length <= longest || (wanted !== undefined && !wanted.test(context))) continue;
    if (isValid(found.replace(/[^0-9A-Za-z]/g, "").toUpperCase())) longest = found.length;
  }
  return longest;
}

/**
 * Finds identity numbers of persons in ten countries by their check digits. A kind of number with which too many other numbers
 * could be confused is found only after a word that names it.
 */
export const nationalId: NumberDetector = {
  kind: "national_id",
  trigger: "number",
  match(span) {
    if (span.text.length < 8) return undefined;
    const context = contextOf(span);
    const apart = textWithLetter(span);
    const apartLength = apart === undefined ? 0 : longestId(apart, context);
    if (apartLength > 0) return { start: span.start - 2, end: span.start - 2 + apartLength };
    const length = longestId(span.text, context);
    return length === 0 ? undefined : { start: span.start, end: span.start + length };
  },
};

/** Month names of seven languages. */
const MONTHS = [
  "jan(?:uary|uar|vier|uari)?|j[aä]nner|gennaio|enero|janeiro|styczeń|stycznia",
  "feb(?:ruary|ruar|ruari|braio|rero)?|f[eé]v(?:rier|ereiro)?|lutego",
  "mar(?:ch|s|zo|ço|ca)?|märz?|mrz|maart|marca",
  "apr(?:il|ile)?|avril|abr(?:il)?|kwietnia",
  "may|mai|mei|maggio|mayo|maio|maja",
  "june?|juni|juin|giugno|junio|junho|czerwca",
  "july?|juli|juillet|luglio|julio|julho|lipca",
  "aug(?:ust|ustus)?|ao[uû]t|agosto|sierpnia",
  "sept?(?:ember|embre|tembre|tiembre)?|set(?:tembre|embro)?|wrze[sś]nia",
  "o[ck]t(?:ober|obre|ubre)?|ottobre|outubro|października",
  "nov(?:ember|embre|iembre|embro)?|listopada",
  "de[cz](?:ember|embre|iembre|embro)?|d[eé]cembre|dicembre|diciembre|grudnia",
].join("|");
const DAY = "(?:0?[1-9]|[12]\\d|3[01])";
const MONTH = "(?:0?[1-9]|1[0-2])";
const YEAR = "(?:1[89]|20)\\d{2}";
const DATE_SHAPES: readonly RegExp[] = [
  `${YEAR}([-/.])${MONTH}\\1${DAY}${END}`,
  `(?:${DAY}([-/.])\\s?${MONTH}|${MONTH}([-/.])${DAY})(?:\\1|\\2)\\s?(?:${YEAR}|\\d{2})${END}`,
  `${DAY}(?:st|nd|rd|th|\\.|er|º)?\\s(?:de\\s|of\\s)?(?:${MONTHS})[.,]?\\s(?:de\\s)?${YEAR}${END}`,
  `(?:${MONTHS})\\.?\\s${DAY}(?:st|nd|rd|th)?,?\\s${YEAR}${END}`,
].map((shape) => new RegExp(`^${shape}`, "iu"));

const BIRTH_CONTEXT =
  /\b(?:born|birth(?:day|date)?|d\.?o\.?b|geb(?:oren|urtsdatum|urtstag)?|n[eé]e?(?=\sle|\s?:)|naissance|nacid[oa]|nacimiento|nat[oa]\sil|nascita|nascid[oa]|nascimento|geboortedatum|urodz\p{L}*)(?![\p{L}\p{N}])|生年月日|出生/iu;
const MONTH_NAME = new RegExp(`^(?:${MONTHS})$`, "iu");
/** Maximum length of a date, with room for `23rd of września, 1980`. */
const MAX_DATE = 32;
const MAX_MONTH = 14;
const COMMA = 0x2c;
const DOT = 0x2e;

const isWord = (unit: number): boolean => (classOf(unit) & WORD) !== 0;

/** Returns the name of a month that ends at `index`, with the mark and space after it; else an empty text. */
export function monthBefore(text: string, index: number): string {
  const end = index - 1;
  if (index < 4 || (classOf(text.charCodeAt(end)) & SPACE) === 0) return "";
  const nameEnd = text.charCodeAt(end - 1) === DOT ? end - 1 : end;
  let start = nameEnd;
  while (start > 0 && nameEnd - start < MAX_MONTH && isWord(text.charCodeAt(start - 1))) start--;
  return MONTH_NAME.test(text.slice(start, nameEnd)) ? text.slice(start, index) : "";
}

const isDateUnit = (unit: number): boolean =>
  unit === COMMA || unit === 0xba || (classOf(unit) & (WORD | LETTER | SEPARATOR)) !== 0;

/** Reads from the day to the maximum end of a date, and one unit more. */
function readDate(partial: PartialText, start: number, from: number): string {
  let end = from;
  while (end - start < MAX_DATE && isDateUnit(unitAt(partial, end))) end++;
  unitAt(partial, end);
  return partial.text.slice(start, end + 1);
}

/** Finds dates in a context of birth, with numbers or with the month's name in one of seven languages. */
export const dateOfBirth: NumberDetector = {
  kind: "date_of_birth",
  trigger: "number",
  match(span: NumberSpan) {
    const { partial, digit } = span;
    if (span.start !== digit) return undefined;
    const start = digit - monthBefore(partial.text, digit).length;
    if (!BIRTH_CONTEXT.test(contextBefore(partial, start))) return undefined;
    const text = readDate(partial, start, digit);
    const lengths = DATE_SHAPES.map((shape) => shape.exec(text)?.[0].length ?? 0);
    const length = Math.max(...lengths);
    return length === 0 ? undefined : { start, end: start + length };
  },
};
