/** Word for all values after the first ones. */
export const OTHER = "other";

/** Bound of a label of a metric. */
export interface Bound {
  readonly label: string;
  /** Values that stand for themselves. */
  readonly max: number;
}

/** A label whose values come from users: the first ones stand for themselves, any further one is `other`, for good. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns the word for a value. */
  of(value: string): string {
    if (value === OTHER || this.#known.has(value)) return value;
    if (this.#known.size >= this.#max) return OTHER;
    this.#known.add(value);
    return value;
  }
}

/** Mandates with series of their own in `acp_mandate_firings_total`. */
export const MAX_MANDATES = 200;
