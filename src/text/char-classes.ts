/** Letter, mark or number of a script with spaces between words. */
export const WORD = 1;
/** White space. */
export const SPACE = 2;
/** Zero-width character that may stand inside a word, such as the soft hyphen. */
export const IGNORABLE = 4;
/** Allowed in the local part of an e-mail address. */
export const LOCAL = 8;
/** ASCII letter. */
export const LETTER = 16;
/** ASCII digit. */
export const DIGIT = 32;
/** Separator between the digits of a number. */
export const SEPARATOR = 64;
/** Digit or `@`, at which detectors start. */
export const TRIGGER = 128;
/** ASCII letter or digit. */
export const ALNUM = LETTER | DIGIT;

/** Scripts that write words or particles without spaces between them. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Tibetan}]+/gu;

const MARKS: readonly (readonly [RegExp, number])[] = [
  [/[\p{L}\p{M}\p{N}]+/gu, WORD | LOCAL],
  [/\s+/gu, SPACE],
  [/\u00ad|\u034f|\u061c|\u180e|[\u200b-\u200f\u2060-\u2064\ufeff]+/gu, IGNORABLE],
  [/[.%+'_-]+/g, LOCAL],
  [/[A-Za-z]+/g, LETTER],
  [/[0-9]+/g, DIGIT | TRIGGER],
  [/@/g, TRIGGER],
  [/[ ./()\u00a0\u2009\u202f\u2010-\u2013-]+/g, SEPARATOR],
];

// Surrogates have no class: half a pair does not identify the character, which is rarely part of a word.
function allUnits(): string {
  const units = Uint16Array.from({ length: 0x10000 }, (_, unit) => (unit >= 0xd800 && unit <= 0xdfff ? 0 : unit));
  return new TextDecoder("utf-16le").decode(units);
}

function classTable(): Uint8Array {
  const table = new Uint8Array(0x10000);
  // A decoder drops U+FEFF only at the beginning, and this text begins with U+0000.
  const text = allUnits();
  const each = (pattern: RegExp, change: (unit: number) => void): void => {
    for (const { index, 0: run } of text.matchAll(pattern)) {
      for (let unit = index; unit < index + run.length; unit++) change(unit);
    }
  };
  for (const [pattern, bit] of MARKS) {
    each(pattern, (unit) => {
      table[unit] = (table[unit] as number) | bit;
    });
  }
  each(UNSPACED, (unit) => {
    table[unit] = (table[unit] as number) & ~(WORD | LOCAL);
  });
  // IGNORABLE wins, since JavaScript counts U+FEFF as white space.
  each(MARKS[2]?.[0] as RegExp, (unit) => {
    table[unit] = IGNORABLE;
  });
  return table;
}

/** Classes of each UTF-16 unit, as a bit set. */
export const CHAR_CLASSES: Uint8Array = classTable();

/** Classes of a unit; 0 for -1, which is past the end. */
export function classOf(unit: number): number {
  return unit < 0 ? 0 : (CHAR_CLASSES[unit] as number);
}
