const digitAt = (digits: string, index: number): number => digits.charCodeAt(index) - 0x30;

/** Luhn check (ISO/IEC 7812-1, annex B) of a text of digits. */
export function isLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = digits.length - 1, isDoubled = false; index >= 0; index--, isDoubled = !isDoubled) {
    const digit = digitAt(digits, index) * (isDoubled ? 2 : 1);
    sum += digit > 9 ? digit - 9 : digit;
  }
  return sum % 10 === 0;
}

/** Sum of digits times weights; digits past the weights do not count. */
export function weightedSum(digits: string, weights: readonly number[]): number {
  return weights.reduce((sum, weight, index) => sum + weight * digitAt(digits, index), 0);
}

/** Remainder of a decimal number of any length. */
export function remainder(digits: string, divisor: number): number {
  let rest = 0;
  for (let index = 0; index < digits.length; index++) rest = (rest * 10 + digitAt(digits, index)) % divisor;
  return rest;
}

/** Check of the last digit by ISO/IEC 7064, MOD 11,10. */
export function isMod11And10(digits: string): boolean {
  let product = 10;
  for (let index = 0; index < digits.length - 1; index++) {
    const sum = (digitAt(digits, index) + product) % 10;
    product = ((sum === 0 ? 10 : sum) * 2) % 11;
  }
  return (11 - product) % 10 === digitAt(digits, digits.length - 1);
}
