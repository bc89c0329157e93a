/** What takes back what was done, in reverse order. */
export type Undo = (() => void)[] | undefined;

/**
 * How far a group is through a sequence: at each place the latest time at which a run began that has come to this step,
 * minus infinity where none has. INVARIANT: no place is later than the one before it.
 */
export type Chain = Float64Array;

/** A chain for the steps before the last one, with nothing done. */
export function createChain(steps: number): Chain {
  return new Float64Array(steps).fill(Number.NEGATIVE_INFINITY);
}

/**
 * Takes in an action at a time that is each of some steps, highest first, so that one action is one step of a run. Of runs
 * that came equally far the one that began last outlives the others, so only it is kept: O(steps) an action.
 */
export function advance(chain: Chain, steps: readonly number[], at: number, undo: Undo): void {
  for (const step of steps) {
    const before = chain[step] as number;
    const began = step === 0 ? at : (chain[step - 1] as number);
    if (!(began > before)) continue;
    chain[step] = began;
    undo?.push(() => {
      chain[step] = before;
    });
  }
}

/** When the latest run through all steps of a chain began; minus infinity when there is none. */
export function beganAt(chain: Chain): number {
  return chain[chain.length - 1] as number;
}
