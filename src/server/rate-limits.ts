import { Throttle } from "../async/throttle.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Bounds of a token bucket. */
export interface Rate {
  readonly perSecond: number;
  /** Calls that may come at once after a pause. */
  readonly burst: number;
}

/** Rates of a process; null: no limit. */
export interface RateLimitsOptions {
  readonly perKey: Rate | null;
  readonly perWorkspace: Rate | null;
  readonly perProcess: Rate | null;
  /** Returns monotonic milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/** Caller of a call, as far as it is counted. */
export interface RatedCaller {
  readonly workspaceId: string;
  readonly keyId: string;
  /** True for a sign-in to the dashboard. */
  readonly isSignIn?: boolean | undefined;
}

/** Function that counts a call before its body is read. Throws RATE_LIMITED. */
export type CountCall = (caller: RatedCaller) => void;

/** Maximum keys and workspaces that are remembered; the one that was quiet longest is forgotten first. */
const MAX_REMEMBERED = 10_000;

interface Bucket {
  readonly limit: "key" | "workspace" | "process";
  readonly rate: Rate;
  readonly throttle: Throttle;
  readonly nameOf: (caller: RatedCaller) => string;
}

/**
 * Limits of the rate of calls, counted over every wire and route together: per key, per workspace and for the process. A refused
 * call takes nothing from any bucket. A person at the dashboard counts per key alone, so that other callers cannot keep people from
 * answering, revoking and halting.
 */
export class RateLimits {
  readonly #buckets: readonly Bucket[];

  constructor({ perKey, perWorkspace, perProcess, now }: RateLimitsOptions) {
    const bucket = (limit: Bucket["limit"], rate: Rate | null, nameOf: Bucket["nameOf"]): Bucket[] => {
      if (rate === null) return [];
      const { perSecond, burst } = rate;
      const bounds = { capacity: burst, refill: 1, intervalMs: 1_000 / perSecond, maxKeys: MAX_REMEMBERED, now };
      return [{ limit, rate, nameOf, throttle: new Throttle(bounds) }];
    };
    this.#buckets = [
      ...bucket("key", perKey, ({ workspaceId, keyId }) => `${workspaceId} ${keyId}`),
      ...bucket("workspace", perWorkspace, ({ workspaceId }) => workspaceId),
      ...bucket("process", perProcess, () => ""),
    ];
  }

  /** Counts a call. Throws RATE_LIMITED if its key, its workspace or the process has used up its rate. */
  readonly count: CountCall = (caller) => {
    const counted = this.#buckets.filter(({ limit }) => limit === "key" || caller.isSignIn !== true);
    const full = counted.find(({ throttle, nameOf }) => throttle.isExhausted(nameOf(caller)));
    if (full !== undefined) throw rateLimited(full, full.throttle.waitMs(full.nameOf(caller)));
    for (const { throttle, nameOf } of counted) throttle.take(nameOf(caller));
  };
}

function rateLimited({ limit, rate: { perSecond, burst } }: Bucket, waitMs: number): ControlPlaneError {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1_000)));
  const rate = `${perSecond} calls a second, ${burst} at once`;
  return new ControlPlaneError(
    ErrorReason.RATE_LIMITED,
    `the ${limit} has used up its rate (${rate}); retry in ${seconds} s`,
    { limit, per_second: String(perSecond), burst: String(burst), retry_after_seconds: seconds },
  );
}
