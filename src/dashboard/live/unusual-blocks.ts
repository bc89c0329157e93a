/** Blocked decisions of the last hour, when they are unusually many. */
export interface UnusualBlocks {
  /** Blocked decisions of the last hour. */
  readonly count: number;
  /** Mean of the hours before. */
  readonly usual: number;
}

/** Blocked decisions in an hour that are never unusual: below this, one agent that tries again makes the difference. */
const MIN_COUNT = 5;
const DEVIATIONS = 3;

/**
 * Tests whether the last of some hours has unusually many blocked decisions: at least 5, and more than the mean and three standard
 * deviations of the hours before. Hours without a decision count as 0. `hourly`: blocked decisions by hour, oldest first.
 */
export function findUnusualBlocks(hourly: readonly number[]): UnusualBlocks | undefined {
  const before = hourly.slice(0, -1);
  const count = hourly.at(-1) ?? 0;
  if (count < MIN_COUNT) return undefined;
  const mean = sum(before) / Math.max(1, before.length);
  const deviation = Math.sqrt(sum(before.map((each) => (each - mean) ** 2)) / Math.max(1, before.length));
  return count > mean + DEVIATIONS * deviation ? { count, usual: mean } : undefined;
}

const sum = (values: readonly number[]): number => values.reduce((total, each) => total + each, 0);
