import { classOf, LETTER, SEPARATOR, SPACE, WORD } from "../char-classes.ts";
import type { NumberSpan } from "../number-span.ts";
import { contextBefore, type TextView, unitAt } from "../text-view.ts";
import type { NumberDetector } from "./detector.ts";

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
const END = "(?![0-9A-Za-z])";
const SHAPES: readonly RegExp[] = [
  `${YEAR}([-/.])${MONTH}\\1${DAY}${END}`,
  `(?:${DAY}([-/.])\\s?${MONTH}|${MONTH}([-/.])${DAY})(?:\\1|\\2)\\s?(?:${YEAR}|\\d{2})${END}`,
  `${DAY}(?:st|nd|rd|th|\\.|er|º)?\\s(?:de\\s|of\\s)?(?:${MONTHS})[.,]?\\s(?:de\\s)?${YEAR}${END}`,
  `(?:${MONTHS})\\.?\\s${DAY}(?:st|nd|rd|th)?,?\\s${YEAR}${END}`,
].map((shape) => new RegExp(`^${shape}`, "iu"));

const CONTEXT =
  /\b(?:born|birth(?:day|date)?|d\.?o\.?b|geb(?:oren|urtsdatum|urtstag)?|n[eé]e?(?=\sle|\s?:)|naissance|nacid[oa]|nacimiento|nat[oa]\sil|nascita|nascid[oa]|nascimento|geboortedatum|urodz\p{L}*)(?![\p{L}\p{N}])|生年月日|出生/iu;
const MONTH_NAME = new RegExp(`^(?:${MONTHS})$`, "iu");
/** Longest date: `23rd of września, 1980` with room. */
const MAX_DATE = 32;
const MAX_MONTH = 14;
const COMMA = 0x2c;
const DOT = 0x2e;

const isWord = (unit: number): boolean => (classOf(unit) & WORD) !== 0;

/** The month's name, with what follows it, that ends before `index`. */
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

/** Reads on from the day as far as a date may go, and one unit more. */
function readDate(view: TextView, start: number, from: number): string {
  let end = from;
  while (end - start < MAX_DATE && isDateUnit(unitAt(view, end))) end++;
  unitAt(view, end);
  return view.text.slice(start, end + 1);
}

/** Dates where the context says that somebody was born: with numbers, or with the month's name in one of seven languages. */
export const dateOfBirth: NumberDetector = {
  kind: "date_of_birth",
  trigger: "number",
  maxLength: MAX_DATE,
  match(span: NumberSpan) {
    const { view, digit } = span;
    if (span.start !== digit) return undefined;
    const start = digit - monthBefore(view.text, digit).length;
    if (!CONTEXT.test(contextBefore(view, start))) return undefined;
    const text = readDate(view, start, digit);
    const lengths = SHAPES.map((shape) => shape.exec(text)?.[0].length ?? 0);
    const length = Math.max(...lengths);
    return length === 0 ? undefined : { start, end: start + length };
  },
};
