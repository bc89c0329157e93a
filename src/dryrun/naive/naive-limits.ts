/** A budget and the amounts that it adds, in millionths. */
export interface NaiveBudget {
  readonly maxTotal: bigint;
  readonly windowMs: number;
  /** Times, in epoch milliseconds, with the amount of each; also of amounts that have left the window. */
  readonly amounts: readonly { readonly atMs: number; readonly millionths: bigint }[];
}

/**
 * Returns the first time from `nowMs` on, in epoch milliseconds, at which one more amount does not exceed a budget, as `naiveResetsAt`
 * does for actions.
 */
export function naiveBudgetResetsAt(
  { maxTotal, windowMs, amounts }: NaiveBudget,
  amount: bigint,
  nowMs: number,
): number | undefined {
  const moments = [nowMs, ...amounts.map(({ atMs }) => atMs + windowMs)].filter((moment) => moment >= nowMs);
  const fits = (moment: number): boolean => {
    const inWindow = amounts.filter(({ atMs }) => atMs > moment - windowMs);
    return inWindow.reduce((sum, { millionths }) => sum + millionths, amount) <= maxTotal;
  };
  return moments.toSorted((a, b) => a - b).find(fits);
}

/** A limit and the actions that it counts. */
export interface NaiveLimit {
  readonly maxCount: number;
  readonly windowMs: number;
  /** Times, in epoch milliseconds, with the number of actions of each; also of actions that have left the window. */
  readonly actions: readonly { readonly atMs: number; readonly count: number }[];
}

/**
 * Returns the first time from `nowMs` on, in epoch milliseconds, at which one more action does not exceed a limit, straight from the
 * definition: it tries the present time and every time at which an action leaves the window. Undefined if there is no such time. The
 * action at hand is among the actions if the limit counts it.
 */
export function naiveResetsAt({ maxCount, windowMs, actions }: NaiveLimit, nowMs: number): number | undefined {
  const moments = [nowMs, ...actions.map(({ atMs }) => atMs + windowMs)].filter((moment) => moment >= nowMs);
  const fits = (moment: number): boolean => {
    const inWindow = actions.filter(({ atMs }) => atMs > moment - windowMs);
    return inWindow.reduce((sum, { count }) => sum + count, 1) <= maxCount;
  };
  return moments.toSorted((a, b) => a - b).find(fits);
}
