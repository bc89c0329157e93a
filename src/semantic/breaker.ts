/** Whether calls are let through: all, none, or one to see how it goes. */
export type BreakerState = "closed" | "open" | "half_open";

/** What a call said of the other side: it works, it does not, or nothing. */
export type CallResult = "worked" | "failed" | "unknown";

/** When a breaker opens, and for how long. */
export interface BreakerOptions {
  /** Milliseconds that a call is remembered. */
  readonly windowMs: number;
  /** Calls that are remembered at most, the newest. */
  readonly maxCalls: number;
  /** Failures among them from which on it opens, if they are at least half of them. */
  readonly minFailures: number;
  /** Milliseconds that it stays open before it lets one call through. */
  readonly openMs: number;
}

/** Opens after five failures in a row, or when half of the last twenty calls failed, and tries again ten seconds later. */
export const DEFAULT_BREAKER: BreakerOptions = { windowMs: 30_000, maxCalls: 20, minFailures: 5, openMs: 10_000 };

/** A call that was let through. */
export interface BreakerCall {
  /** Says how the call went. MUST be called once. */
  end(result: CallResult): void;
}

/** A circuit breaker: leaves another system alone that fails (M. Nygard, Release It!, "Circuit Breaker"). */
export interface Breaker {
  readonly state: BreakerState;
  /** Lets a call through; undefined while the breaker is open, or half open with a call under way. */
  begin(): BreakerCall | undefined;
}

/** Creates a closed breaker. `now` gives monotonic milliseconds; `changed` hears when it opens and when it closes. */
export function createBreaker(
  { windowMs, maxCalls, minFailures, openMs }: BreakerOptions,
  now: () => number,
  changed: (state: "closed" | "open") => void,
): Breaker {
  let calls: { readonly at: number; readonly failed: boolean }[] = [];
  let openedAt: number | undefined;
  let isProbing = false;
  // Calls that began before the breaker last opened or closed say nothing of the time since.
  let era = 0;

  const stateNow = (): BreakerState => {
    if (openedAt === undefined) return "closed";
    return now() < openedAt + openMs ? "open" : "half_open";
  };

  const turn = (to: "closed" | "open"): void => {
    openedAt = to === "open" ? now() : undefined;
    calls = [];
    isProbing = false;
    era += 1;
    changed(to);
  };

  const remember = (failed: boolean): void => {
    const at = now();
    calls = [...calls, { at, failed }].filter((call) => call.at > at - windowMs).slice(-maxCalls);
    const failures = calls.filter((call) => call.failed).length;
    if (failures >= minFailures && failures * 2 >= calls.length) turn("open");
  };

  const probed = (result: CallResult): void => {
    isProbing = false;
    if (result !== "unknown") turn(result === "worked" ? "closed" : "open");
  };

  return {
    get state() {
      return stateNow();
    },
    begin() {
      const state = stateNow();
      if (state === "open" || isProbing) return undefined;
      isProbing = state === "half_open";
      const own = era;
      return {
        end(result) {
          if (own !== era) return;
          if (state === "half_open") probed(result);
          else if (result !== "unknown") remember(result === "failed");
        },
      };
    },
  };
}
