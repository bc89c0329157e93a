import { classOf, SEPARATOR } from "./char-classes.ts";

/**
 * The form of a disguised text in which detectors find values: compatibility forms (UAX 15, NFKC of each character), digits of
 * any script, dashes, dots and spaces become ASCII, and invisible characters are removed. Other letters and their case stay, and
 * every unit keeps its position, which `fold` gives up.
 */

/** A text in its detectable form, with the positions of its units in the original. */
export interface DetectableText {
  readonly text: string;
  /** Start and end of each unit's character in the original. */
  readonly starts: readonly number[];
  readonly ends: readonly number[];
}

const SPECIAL = 0xffff;
const DROPPED = 0xfffe;
/**
 * Maximum invisible characters in a row that are removed. A longer row stays and ends a value, so that waiting text is bounded.
 */
const MAX_DROPPED = 256;

const DIGIT = /^\p{Nd}$/u;
const DASH = /^[\p{Pd}\u2212\u02d7\u2043]$/u;
const SPACE = /^[\p{Zs}\u2028\u2029\u0085\t\v\f]$/u;
const DOT = /^[\u3002\uff61\u00b7\u2027\u2219\u22c5\u30fb\u2024]$/u;
/** Compatibility forms that are folded: letters, digits and the signs in values, such as the full-width `＠`. */
const SIGNS = /^(?!\.\.)[0-9A-Za-z@.+:/()_-]+$/;
const INVISIBLE = /^[\p{Default_Ignorable_Code_Point}\u180e\ufff9-\ufffb]$/u;

/** Returns the ASCII digit for a digit of any script. Each script has its digits in a row from zero. */
function digitOf(point: number): string {
  let zero = point;
  while (point - zero < 9 && DIGIT.test(String.fromCodePoint(zero - 1))) zero--;
  return String((point - zero) % 10);
}

/** Returns the folded form of one character, which is empty for an invisible character. */
function foldedOf(point: number): string {
  // Detectors know the spaces and dashes of ordinary prose.
  if (point < 0x80 || (point <= 0xffff && (classOf(point) & SEPARATOR) !== 0)) return String.fromCharCode(point);
  const raw = String.fromCodePoint(point);
  if (INVISIBLE.test(raw)) return "";
  const compatible = raw.normalize("NFKC");
  if (compatible !== raw && SIGNS.test(compatible)) return compatible;
  if (DIGIT.test(raw)) return digitOf(point);
  if (DASH.test(raw)) return "-";
  if (SPACE.test(raw)) return " ";
  if (DOT.test(raw)) return ".";
  return raw;
}

/** Folded form of each UTF-16 unit, if it is one unit or empty. */
const UNITS: Uint16Array = Uint16Array.from({ length: 0x10000 }, (_, unit) => {
  if (unit >= 0xd800 && unit < 0xe000) return SPECIAL;
  const folded = foldedOf(unit);
  if (folded === "") return DROPPED;
  return folded.length === 1 && folded.charCodeAt(0) < DROPPED ? folded.charCodeAt(0) : SPECIAL;
});

/** True if a text is its own detectable form. */
export function isDetectable(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (UNITS[unit] !== unit && !isPlainPair(text, index)) return false;
  }
  return true;
}

/** True for a unit of a surrogate pair that stays as it is, such as an emoji's. Half a pair is undecided. */
function isPlainPair(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  if (unit < 0xd800 || unit > 0xdfff) return false;
  const point = text.codePointAt(unit >= 0xdc00 ? index - 1 : index) ?? 0;
  return point > 0xffff && foldedPoint(point).length === 2;
}

function foldedPoint(point: number): string {
  // Fast path for emoji and ideographs, the most frequent characters here.
  if ((point >= 0x1f300 && point < 0x1fb00) || (point >= 0x20000 && point < 0xe0000))
    return String.fromCodePoint(point);
  return foldedOf(point);
}

/** Converts a text to its detectable form. */
export function detectableFrom(text: string): DetectableText {
  const pieces: string[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  let dropped = 0;
  for (let index = 0; index < text.length; ) {
    const point = text.codePointAt(index) as number;
    const end = index + (point > 0xffff ? 2 : 1);
    let folded = foldedAt(point);
    dropped = folded === "" ? dropped + 1 : 0;
    if (dropped > MAX_DROPPED) folded = text.slice(index, end);
    for (let unit = 0; unit < folded.length; unit++) {
      starts.push(index);
      ends.push(end);
    }
    pieces.push(folded);
    index = end;
  }
  return { text: pieces.join(""), starts, ends };
}

function foldedAt(point: number): string {
  if (point > 0xffff) return foldedPoint(point);
  const unit = UNITS[point] as number;
  if (unit === DROPPED) return "";
  return unit === SPECIAL ? foldedOf(point) : String.fromCharCode(unit);
}
