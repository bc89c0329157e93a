import { type CountryCode, isValidPhoneNumber } from "libphonenumber-js/max";

/** Maximum lookups in numbering plans for one text; each takes some 10 µs. */
const MAX_LOOKUPS = 10_000;

/**
 * Looks numbers up in the numbering plans of countries, each once. A text full of numbers would take seconds. So beyond a bound
 * every number counts as a telephone number and is hidden.
 */
export class PhoneLookups {
  readonly #known = new Map<string, boolean>();

  /** Tests for a number in a numbering plan; without a country the number begins with `+`. */
  isValid(number: string, country?: CountryCode): boolean {
    const key = `${country ?? ""} ${number}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#known.size >= MAX_LOOKUPS) return true;
    const isValid = isValidPhoneNumber(number, country);
    this.#known.set(key, isValid);
    return isValid;
  }
}
