/** Places after the point of an amount. */
const PLACES = 6;
const MILLION = 10 ** PLACES;
/** Largest amount, either way. */
const MAX_AMOUNT = 999_999_999;

/**
 * Returns the millionths of an amount, exact: the shortest decimal text of the number, as RFC 8785 writes it. Undefined for a number
 * with more than six places or beyond 999,999,999, which cannot be added.
 */
export function millionthsFrom(amount: number): number | undefined {
  if (!(Math.abs(amount) <= MAX_AMOUNT)) return undefined;
  // At most 15 digits, so that no two decimals are the same double: the quotient is the amount only if the millionths are exact.
  const millionths = Math.round(amount * MILLION);
  return millionths / MILLION === amount ? millionths : undefined;
}

/** Writes millionths as a decimal text with six places: `12.500000`. */
function textFrom(millionths: bigint): string {
  const digits = (millionths < 0n ? -millionths : millionths).toString().padStart(PLACES + 1, "0");
  return `${millionths < 0n ? "-" : ""}${digits.slice(0, -PLACES)}.${digits.slice(-PLACES)}`;
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

/** Returns the double nearest to an amount of millionths. */
export function amountFrom(millionths: bigint): number {
  // IEEE 754 rounds the quotient of two exact numbers to the nearest double.
  if (-MAX_SAFE <= millionths && millionths <= MAX_SAFE) return Number(millionths) / MILLION;
  return Number(textFrom(millionths));
}

/** Writes an amount of millionths for people, with two places or as many as it has: `12`, `12.50`, `0.125`. */
export function amountText(millionths: bigint): string {
  const [wholes, places = ""] = textFrom(millionths).split(".");
  const shown = places.replace(/0{1,4}$/, "");
  return shown === "00" ? `${wholes}` : `${wholes}.${shown}`;
}

/** Total of amounts, exact in whatever order they are added. */
export class DecimalTotal {
  /** Apart, so that neither leaves the whole numbers that a double holds. */
  #wholes = 0;
  #millionths = 0;

  /** Adds millionths, as `millionthsFrom` gives them. */
  add(millionths: number): void {
    const rest = millionths % MILLION;
    this.#wholes += (millionths - rest) / MILLION;
    this.#millionths += rest;
  }

  /** The total, as the double nearest to it. */
  get value(): number {
    return amountFrom(this.#all);
  }

  /** The total as a decimal text with six places: `12.500000`. */
  get text(): string {
    return textFrom(this.#all);
  }

  get #all(): bigint {
    return BigInt(this.#wholes) * BigInt(MILLION) + BigInt(this.#millionths);
  }
}
