/**
 * The form in which names and values compare: spellings that show the same are one text.
 */

/** Characters without a glyph: default ignorables (UAX 44), controls, the marks of annotations, and the empty braille pattern. */
const INVISIBLE = "\\p{Default_Ignorable_Code_Point}\\x00-\\x08\\x0e-\\x1f\\x7f-\\x9f\\u2800\\ufff9-\\ufffb";
/** Marks that stand on a letter, with those that only a compatibility form puts there. */
const MARK = "\\p{M}\\uff9e\\uff9f";
const ANY_INVISIBLE = new RegExp(`[${INVISIBLE}]`, "u");
const EVERY_INVISIBLE = new RegExp(ANY_INVISIBLE, "gu");
const BLANK = new RegExp(`[\\s${INVISIBLE}]`, "u");
const BLANKS = new RegExp(`^${BLANK.source}+`, "u");
const INVISIBLE_OR_MARK = new RegExp(`[${INVISIBLE}${MARK}]`, "u");
/** Marks in a row beyond the ten of one letter; no script needs them, and the time to sort a row grows with its square. */
const LATER_MARKS = new RegExp(`([${MARK}]{10})[${MARK}]+`, "gu");

/** True if a text is printable ASCII with its blanks, which neither hides nor disguises anything: it is its own plain form. */
export function isAscii(text: string): boolean {
  // A loop, since most texts are short and an expression costs more to begin.
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code > 0x7e || (code < 0x20 && (code < 0x09 || code > 0x0d))) return false;
  }
  return true;
}

/** Returns the first invisible character of a text. */
export const invisibleIn = (text: string): string | undefined => ANY_INVISIBLE.exec(text)?.[0];

/** Removes blanks and invisible characters around a text. */
export function trimmedText(text: string): string {
  const start = BLANKS.exec(text)?.[0].length ?? 0;
  let end = text.length;
  while (end > start) {
    const isPair = end - 2 >= start && (text.codePointAt(end - 2) ?? 0) > 0xffff;
    const first = isPair ? end - 2 : end - 1;
    if (!BLANK.test(text.slice(first, end))) break;
    end = first;
  }
  return text.slice(start, end);
}

/**
 * Returns the plain form of a text: without invisible characters, without more than ten marks on a letter, and without
 * compatibility forms (UAX 15, NFKC), such as full-width letters and ligatures. Letter case and blanks stay. It may be longer than
 * the text, at most eighteen times.
 */
export function plainText(text: string): string {
  if (isAscii(text)) return text;
  const seen = INVISIBLE_OR_MARK.test(text) ? text.replace(EVERY_INVISIBLE, "").replace(LATER_MARKS, "$1") : text;
  return seen.normalize("NFKC");
}

/** Folds a text: its plain form with folded case, trimmed. Idempotent. */
export function fold(text: string): string {
  if (isAscii(text)) return text.toLowerCase().trim();
  // Upper case joins letters that lower case keeps apart, but also the dotless i with the dotted one.
  const parts = plainText(text).toLowerCase().split("ı");
  const folded = parts.map((part) => part.toUpperCase().toLowerCase().replaceAll("ς", "σ")).join("ı");
  return folded.normalize("NFKC").trim();
}
