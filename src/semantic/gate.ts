/** How much goes on at once. */
export interface GateOptions {
  /** Calls under way at most. */
  readonly places: number;
  /** Calls that wait for a place at most. */
  readonly maxWaiting: number;
}

/** Sixteen at once are what a small model server batches; a queue of four times that is still short of the deadline. */
export const DEFAULT_GATE: GateOptions = { places: 16, maxWaiting: 64 };

/** Bounds how many calls go on at once; who waits longest goes next. */
export interface Gate {
  /** Resolves with true when there is a place, and with false when too many wait already or the signal aborts before. */
  enter(signal: AbortSignal): Promise<boolean>;
  /** Gives a place back. MUST be called once for every `enter` that gave true. */
  leave(): void;
}

/** Creates a gate with all its places free. */
export function createGate({ places, maxWaiting }: GateOptions): Gate {
  const waiting = new Set<(isIn: boolean) => void>();
  let taken = 0;

  const wait = (signal: AbortSignal): Promise<boolean> =>
    new Promise((resolve) => {
      const giveUp = (): void => answer(false);
      const answer = (isIn: boolean): void => {
        waiting.delete(answer);
        signal.removeEventListener("abort", giveUp);
        resolve(isIn);
      };
      waiting.add(answer);
      signal.addEventListener("abort", giveUp, { once: true });
    });

  return {
    enter(signal) {
      if (signal.aborted) return Promise.resolve(false);
      if (taken < places) {
        taken += 1;
        return Promise.resolve(true);
      }
      return waiting.size < maxWaiting ? wait(signal) : Promise.resolve(false);
    },
    leave() {
      const [next] = waiting;
      // A place that goes from hand to hand is never free in between, so nobody overtakes who waits.
      if (next === undefined) taken -= 1;
      else next(true);
    },
  };
}
