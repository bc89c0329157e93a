/** Choices of the family, which a smaller case keeps. */
const KEPT = 1;
/** Cases that are run at the most to find the smallest. */
const MAX_RUNS = 150;
/** Milliseconds after which no further case is run. */
const MAX_MS = 5_000;

/** Choices that are nearly these, those with the greatest step first. */
function* smaller(choices: readonly number[]): Generator<readonly number[]> {
  for (const length of [16, 8, 4, 2, 1]) {
    for (let at = choices.length - length; at >= KEPT; at -= length) yield choices.toSpliced(at, length);
  }
  for (let at = KEPT; at < choices.length; at++) {
    const choice = choices[at] ?? 0;
    for (const less of new Set([0, choice >> 1, choice - 1]))
      if (less < choice) yield choices.with(at, Math.max(less, 0));
  }
}

/**
 * Finds choices that are fewer or smaller and with which a case still fails (integrated shrinking); undefined if it does not fail
 * with the given ones.
 */
export async function fewerChoices(
  choices: readonly number[],
  fails: (choices: readonly number[]) => Promise<boolean>,
): Promise<readonly number[] | undefined> {
  if (!(await fails(choices))) return undefined;
  let least = choices;
  let runs = 0;
  const until = performance.now() + MAX_MS;
  const step = async (): Promise<boolean> => {
    for (const tried of smaller(least)) {
      if (++runs > MAX_RUNS || performance.now() > until) return false;
      if (!(await fails(tried))) continue;
      least = tried;
      return true;
    }
    return false;
  };
  while (await step());
  // The last failure is the one that is told of.
  await fails(least);
  return least;
}
