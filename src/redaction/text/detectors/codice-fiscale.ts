const SHAPE = /^[A-Z]{6}[0-9L-NP-V]{2}[A-EHLMPR-T][0-9L-NP-V]{2}[A-Z][0-9L-NP-V]{3}[A-Z]$/;
/** What a character at an odd place counts (decree of 23 December 1976), for `0` to `9` and likewise for `A` to `J`. */
const ODD_FIRST = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21];
/** For `K` to `Z`. */
const ODD_REST = [2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
const ODD = [...ODD_FIRST, ...ODD_REST];

const orderOf = (character: string): number =>
  character >= "A" ? character.charCodeAt(0) - 65 : character.charCodeAt(0) - 48;

/** The check of an Italian tax code of 16 letters and digits, those with letters in the place of digits included. */
export function isCodiceFiscale(code: string): boolean {
  if (!SHAPE.test(code)) return false;
  let sum = 0;
  for (const [index, character] of [...code.slice(0, 15)].entries()) {
    const order = orderOf(character);
    sum += index % 2 === 0 ? (ODD[order] as number) : order;
  }
  return String.fromCharCode(65 + (sum % 26)) === code[15];
}
