/** Digits after the point of an amount: a rounded one would not be what runs. */
const MAX_DIGITS = 20;
/** A currency that the browser can write with its sign. */
const CODE = /^[a-z]{3}$/i;

/**
 * Writes an amount with its currency and every digit that it has: `€1,240.50`. A currency that is no code of three letters stands behind
 * the number; it is text from elsewhere.
 */
export function moneyText(amount: number, currency: string): string {
  const isCode = CODE.test(currency);
  const style = isCode ? ({ style: "currency", currency } as const) : {};
  const text = new Intl.NumberFormat("en", { ...style, maximumFractionDigits: MAX_DIGITS }).format(amount);
  // Its space is one that would be shown as invisible.
  return isCode ? text.replaceAll(/\s/g, " ") : `${text} ${currency}`;
}

/** A budget as a decision or a list of limits shows it; the amounts are in `currency`. */
export interface Budget {
  readonly currency: string;
  readonly limit: number;
  /** `reserved` and `captured` together. */
  readonly total: number;
  readonly reserved: number;
  readonly captured: number;
  readonly remaining: number;
}

/** Writes what a budget has left, or by how much it is exceeded: `€600.00 of €1,000.00 left`. */
export function restOfBudget({ currency, limit, total, remaining }: Budget): string {
  const all = moneyText(limit, currency);
  // Amounts have six places at most, and the difference of two is no exact number.
  if (total > limit) return `${moneyText(Number((total - limit).toFixed(6)), currency)} over ${all}`;
  return remaining === 0 ? `all of ${all} used` : `${moneyText(remaining, currency)} of ${all} left`;
}

/** Writes how a budget was used: `€320.00 captured, €80.00 reserved`. */
export const usedOfBudget = ({ currency, captured, reserved }: Budget): string =>
  `${moneyText(captured, currency)} captured, ${moneyText(reserved, currency)} reserved`;

/** Returns the share of a budget that an amount is, from 0 to 1; a budget of nothing is full. */
export const shareOfBudget = ({ limit }: Budget, amount: number): number =>
  limit === 0 ? 1 : Math.min(1, amount / limit);
