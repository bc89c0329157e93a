import { CHAR_CLASSES, IGNORABLE, SPACE } from "./char-classes.ts";

/** What white space becomes. */
export const FOLDED_SPACE = 0x20;

const lowerOf = (text: string): string => text.toUpperCase().toLowerCase();

// Han, Hangul, surrogates and private use: two thirds of all units, none of which folds.
const foldsToItself = (unit: number): boolean => (unit >= 0x3400 && unit < 0xa000) || (unit >= 0xac00 && unit < 0xf900);

function foldedUnit(unit: number): number {
  if (((CHAR_CLASSES[unit] as number) & SPACE) !== 0) return FOLDED_SPACE;
  if (foldsToItself(unit)) return unit;
  const raw = String.fromCharCode(unit);
  const compatible = raw.normalize("NFKC");
  const base = compatible.length === 1 ? compatible : raw;
  const folded = [lowerOf(base), base.toLowerCase()].find(({ length }) => length === 1) ?? base;
  return folded.charCodeAt(0);
}

/**
 * Each UTF-16 unit without its letter case and compatibility form, as far as that is one unit again: offsets stay. What
 * folds to several (`ß`, ligatures) folds to itself.
 */
export const FOLDED_UNITS: Uint16Array = Uint16Array.from({ length: 0x10000 }, (_, unit) => foldedUnit(unit));

/** A text as it is compared: units folded, runs of white space one space, none at the ends, no ignorable characters. */
export function foldText(text: string): string {
  let folded = "";
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (((CHAR_CLASSES[unit] as number) & IGNORABLE) === 0) folded += String.fromCharCode(FOLDED_UNITS[unit] as number);
  }
  return folded.replace(/ +/g, " ").trim();
}

const FORMS = ["NFC", "NFD", "NFKC", "NFKD"] as const;
const IS_ASCII = /^[\x20-\x7e]*$/;

/** The folded forms that a value may have in a text: composed, decomposed, and both with compatibility characters replaced. */
export function foldedForms(value: string): ReadonlySet<string> {
  if (IS_ASCII.test(value)) return new Set([value.trim().toLowerCase().replace(/ +/g, " ")]);
  return new Set(FORMS.map((form) => foldText(value.normalize(form))));
}
