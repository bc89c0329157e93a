import { CHAR_CLASSES, IGNORABLE, SPACE } from "./char-classes.ts";

/** White space after normalisation. */
export const NORMALISED_SPACE = 0x20;

const lowerOf = (text: string): string => text.toUpperCase().toLowerCase();

// Han, Hangul, surrogates and private use: two thirds of all units, which never change.
const isNormal = (unit: number): boolean => (unit >= 0x3400 && unit < 0xa000) || (unit >= 0xac00 && unit < 0xf900);

function normaliseUnit(unit: number): number {
  if (((CHAR_CLASSES[unit] as number) & SPACE) !== 0) return NORMALISED_SPACE;
  if (isNormal(unit)) return unit;
  const raw = String.fromCharCode(unit);
  const compatible = raw.normalize("NFKC");
  const base = compatible.length === 1 ? compatible : raw;
  const lower = [lowerOf(base), base.toLowerCase()].find(({ length }) => length === 1) ?? base;
  return lower.charCodeAt(0);
}

/**
 * Each UTF-16 unit without letter case and compatibility form. Offsets do not change: a unit that would become several (`ß`,
 * ligatures) stays itself.
 */
export const NORMALISED_UNITS: Uint16Array = Uint16Array.from({ length: 0x10000 }, (_, unit) => normaliseUnit(unit));

/** Normalises a text for comparison: units normalised, white space collapsed and trimmed, ignorable characters removed. */
export function normaliseText(text: string): string {
  let normalised = "";
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (((CHAR_CLASSES[unit] as number) & IGNORABLE) === 0)
      normalised += String.fromCharCode(NORMALISED_UNITS[unit] as number);
  }
  return normalised.replace(/ +/g, " ").trim();
}

const FORMS = ["NFC", "NFD", "NFKC", "NFKD"] as const;
const IS_ASCII = /^[\x20-\x7e]*$/;

/** Normalised forms of a value: composed, decomposed, and both with compatibility characters replaced. */
export function normalisedForms(value: string): ReadonlySet<string> {
  if (IS_ASCII.test(value)) return new Set([value.trim().toLowerCase().replace(/ +/g, " ")]);
  return new Set(FORMS.map((form) => normaliseText(value.normalize(form))));
}
