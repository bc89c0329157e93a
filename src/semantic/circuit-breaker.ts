/** State of a circuit breaker: `closed` lets every call through, `open` none, `half_open` one probe at a time. */
export type BreakerState = "closed" | "open" | "half_open";

/** Outcome of a call: the other side works, it fails, or the call says nothing about it. */
export type CallResult = "worked" | "failed" | "unknown";

/** Thresholds and times of a circuit breaker. */
export interface BreakerOptions {
  /** Milliseconds for which a call is remembered. */
  readonly windowMs: number;
  /** Maximum number of calls remembered; the newest win. */
  readonly maxCalls: number;
  /** Minimum number of failures that opens the breaker, if they are at least half of the remembered calls. */
  readonly minFailures: number;
  /** Milliseconds for which the breaker stays open before it lets a probe through. */
  readonly openMs: number;
}

/** Opens after five failures in a row, or when half of the last twenty calls failed; probes ten seconds later. */
export const DEFAULT_BREAKER: BreakerOptions = { windowMs: 30_000, maxCalls: 20, minFailures: 5, openMs: 10_000 };

/** A call that was let through. */
export interface BreakerCall {
  /** Reports the outcome. MUST be called once. */
  end(result: CallResult): void;
}

/**
 * Circuit breaker (M. Nygard, Release It!): stops calling another system while it fails. A half-open breaker refuses further
 * calls instead of queueing them behind the probe, and a call counts only if the breaker did not turn since it began.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  readonly #now: () => number;
  readonly #onTurn: (state: "closed" | "open") => void;
  #calls: { readonly atMs: number; readonly failed: boolean }[] = [];
  #openedAtMs: number | undefined;
  #isProbing = false;
  /** Incremented with each turn, so that calls that began before it are ignored. */
  #epoch = 0;

  /** Creates a closed breaker. `now` returns monotonic milliseconds; `onTurn` is called when it opens or closes. */
  constructor(options: BreakerOptions, now: () => number, onTurn: (state: "closed" | "open") => void) {
    this.#options = options;
    this.#now = now;
    this.#onTurn = onTurn;
  }

  get state(): BreakerState {
    if (this.#openedAtMs === undefined) return "closed";
    return this.#now() < this.#openedAtMs + this.#options.openMs ? "open" : "half_open";
  }

  /** Lets a call through; undefined while the breaker is open, or half open with a probe in flight. */
  begin(): BreakerCall | undefined {
    const { state } = this;
    if (state === "open" || this.#isProbing) return undefined;
    this.#isProbing = state === "half_open";
    const epoch = this.#epoch;
    return {
      end: (result) => {
        if (epoch !== this.#epoch) return;
        if (state === "half_open") this.#endProbe(result);
        else if (result !== "unknown") this.#remember(result === "failed");
      },
    };
  }

  #turn(to: "closed" | "open"): void {
    this.#openedAtMs = to === "open" ? this.#now() : undefined;
    this.#calls = [];
    this.#isProbing = false;
    this.#epoch += 1;
    this.#onTurn(to);
  }

  #endProbe(result: CallResult): void {
    this.#isProbing = false;
    if (result !== "unknown") this.#turn(result === "worked" ? "closed" : "open");
  }

  #remember(failed: boolean): void {
    const { windowMs, maxCalls, minFailures } = this.#options;
    const atMs = this.#now();
    this.#calls = [...this.#calls, { atMs, failed }].filter((call) => call.atMs > atMs - windowMs).slice(-maxCalls);
    const failures = this.#calls.filter((call) => call.failed).length;
    if (failures >= minFailures && failures * 2 >= this.#calls.length) this.#turn("open");
  }
}
