/** Quantile of the normal distribution for intervals that hold in 95 of 100 cases. */
const Z = 1.959964;

/** A share with its interval, each 0 to 1. */
export interface Share {
  readonly share: number;
  readonly from: number;
  readonly to: number;
}

/** Returns the share of `count` in `total` with its Wilson interval of 95 %; undefined of none. */
export function shareOf(count: number, total: number): Share | undefined {
  if (total === 0) return undefined;
  const share = count / total;
  const spread = Z * Math.sqrt((share * (1 - share)) / total + (Z * Z) / (4 * total * total));
  const centre = share + (Z * Z) / (2 * total);
  const scale = 1 + (Z * Z) / total;
  return {
    share,
    from: count === 0 ? 0 : Math.max(0, (centre - spread) / scale),
    to: count === total ? 1 : Math.min(1, (centre + spread) / scale),
  };
}

/** Returns the mean of numbers; undefined of none. */
export const meanOf = (numbers: readonly number[]): number | undefined =>
  numbers.length === 0 ? undefined : numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

/** Returns the smallest of some numbers that `share` of them do not exceed; undefined of none. */
export function quantileOf(numbers: readonly number[], share: number): number | undefined {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}
