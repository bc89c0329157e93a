/** Wakes the one who waits. */
export interface Bell {
  /** Ends the wait under way, or the next one if there is none. */
  ring(): void;
  /** Resolves after some milliseconds (`Infinity`: never) or when the bell rings, which it may have done since the last wait. */
  wait(ms: number): Promise<void>;
}

/** Longest time that a timer can be set to; whoever waits longer looks again in between. */
const MAX_TIMER_MS = 2_147_483_647;

/** Creates a bell for one who waits at a time. */
export function createBell(): Bell {
  let hasRung = false;
  let wake: (() => void) | undefined;
  return {
    ring() {
      hasRung = true;
      wake?.();
    },
    async wait(ms) {
      if (!hasRung) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (ms === Number.POSITIVE_INFINITY) return;
          const timer = setTimeout(resolve, Math.min(ms, MAX_TIMER_MS));
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      wake = undefined;
      hasRung = false;
    },
  };
}
