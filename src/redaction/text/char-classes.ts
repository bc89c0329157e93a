/** A letter, mark or number of a script that puts spaces between words. */
export const WORD = 1;
/** White space. */
export const SPACE = 2;
/** A character without a width that may stand inside a word, such as the soft hyphen. */
export const IGNORABLE = 4;
/** May stand in the local part of an e-mail address. */
export const LOCAL = 8;
/** ASCII letter. */
export const LETTER = 16;
/** ASCII digit. */
export const DIGIT = 32;
/** Between the digits of a number as people write it. */
export const SEPARATOR = 64;
/** A digit or `@`: a detector looks from here. */
export const TRIGGER = 128;
/** ASCII letter or digit. */
export const ALNUM = LETTER | DIGIT;

/** Scripts whose words touch each other, or take their particles without a space. */
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

// Surrogates stay unmarked: a unit of them says nothing of its character, and what they most often are is no word.
function unitText(): string {
  const units = Uint16Array.from({ length: 0x10000 }, (_, unit) => (unit >= 0xd800 && unit <= 0xdfff ? 0 : unit));
  return new TextDecoder("utf-16le").decode(units);
}

function classTable(): Uint8Array {
  const table = new Uint8Array(0x10000);
  // A decoder drops U+FEFF at the beginning only, and this text begins with U+0000.
  const text = unitText();
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
  // IGNORABLE wins: U+FEFF is white space to the language.
  each(MARKS[2]?.[0] as RegExp, (unit) => {
    table[unit] = IGNORABLE;
  });
  return table;
}

/** What each UTF-16 unit is, as bits. */
export const CHAR_CLASSES: Uint8Array = classTable();

/** The bits of a unit; none for -1, which stands for no unit. */
export function classOf(unit: number): number {
  return unit < 0 ? 0 : (CHAR_CLASSES[unit] as number);
}
