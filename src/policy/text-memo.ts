/** Length from which a converted text is remembered, and the number of such texts. */
const LONG_TEXT = 256;
const REMEMBERED_TEXTS = 8;

/** Converts the texts of one action, the long ones once for all conditions. */
export class TextMemo {
  readonly #convert: (text: string) => string;
  // A short list and no map: past some length, all texts of the same length have the same hash.
  readonly #known: { readonly text: string; readonly converted: string }[] = [];

  constructor(convert: (text: string) => string) {
    this.#convert = convert;
  }

  /** Tests whether a text was converted before and is remembered. */
  has(text: string): boolean {
    return this.#find(text) !== undefined;
  }

  /** Returns a text, converted. */
  of(text: string): string {
    const known = this.#find(text);
    if (known !== undefined) return known;
    const converted = this.#convert(text);
    if (text.length >= LONG_TEXT && this.#known.length < REMEMBERED_TEXTS) this.#known.push({ text, converted });
    return converted;
  }

  #find(text: string): string | undefined {
    return text.length < LONG_TEXT ? undefined : this.#known.find((each) => each.text === text)?.converted;
  }
}
