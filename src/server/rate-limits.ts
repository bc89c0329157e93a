import { LRUCache } from "lru-cache";
import type { Rate } from "../async/rate.ts";
import { Throttle } from "../async/throttle.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Rates of calls that a workspace sets; null: no limit. */
export interface OwnRates {
  readonly perKey: Rate | null;
  readonly perWorkspace: Rate | null;
}

/** Rates of a process; null: no limit. */
export interface RateLimitsOptions {
  readonly perKey: Rate | null;
  readonly perWorkspace: Rate | null;
  readonly perProcess: Rate | null;
  /** Returns the rates that a workspace sets. MUST NOT reject. Default: it sets none. */
  readonly ownRates?: ((workspaceId: string) => OwnRates | Promise<OwnRates>) | undefined;
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

/**
 * Function that counts a call before its body is read. Throws RATE_LIMITED, or returns a promise that rejects with it while the rates
 * of the caller's workspace are being read.
 */
export type CountCall = (caller: RatedCaller) => Promise<void> | undefined;

/** Maximum keys and workspaces that are remembered; the one that was quiet longest is forgotten first. */
const MAX_REMEMBERED = 10_000;
const NONE: OwnRates = { perKey: null, perWorkspace: null };

/** Setting that a rate comes from: a variable of the process, or a member of the workspace. */
type RateSetting =
  | "ACP_RATE_LIMIT_KEY"
  | "ACP_RATE_LIMIT_WORKSPACE"
  | "ACP_RATE_LIMIT_PROCESS"
  | "rate_limit_key"
  | "rate_limit_workspace";

interface Bucket {
  readonly limit: "key" | "workspace" | "process";
  readonly setting: RateSetting;
  readonly rate: Rate;
  readonly throttle: Throttle;
  readonly nameOf: (caller: RatedCaller) => string;
}

/** Buckets of the rates that a workspace sets. */
interface OwnBuckets {
  readonly rates: OwnRates;
  readonly buckets: readonly Bucket[];
}

/**
 * Limits of the rate of calls, counted over every wire and route together: per key, per workspace and for the process. Those of the
 * process and those that a workspace sets hold beside each other. A refused call takes nothing from any bucket. A person at the
 * dashboard counts for the key's limit of the process alone, so that other callers cannot keep people from answering, revoking and
 * halting, and no limit of a workspace keeps them from changing it.
 */
export class RateLimits {
  readonly #buckets: readonly Bucket[];
  readonly #ownRates: NonNullable<RateLimitsOptions["ownRates"]>;
  readonly #own = new LRUCache<string, OwnBuckets>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 });
  readonly #now: (() => number) | undefined;

  constructor({ perKey, perWorkspace, perProcess, ownRates = () => NONE, now }: RateLimitsOptions) {
    this.#now = now;
    this.#ownRates = ownRates;
    this.#buckets = [
      ...this.#bucket("key", "ACP_RATE_LIMIT_KEY", perKey, ({ workspaceId, keyId }) => `${workspaceId} ${keyId}`),
      ...this.#bucket("workspace", "ACP_RATE_LIMIT_WORKSPACE", perWorkspace, ({ workspaceId }) => workspaceId),
      ...this.#bucket("process", "ACP_RATE_LIMIT_PROCESS", perProcess, () => ""),
    ];
  }

  /** Counts a call. Throws RATE_LIMITED if its key, its workspace or the process has used up its rate. */
  readonly count: CountCall = (caller) => {
    if (caller.isSignIn === true) {
      take(
        this.#buckets.filter(({ limit }) => limit === "key"),
        caller,
      );
      return undefined;
    }
    const own = this.#ownRates(caller.workspaceId);
    if (own instanceof Promise) return own.then((rates) => this.#take(caller, rates));
    this.#take(caller, own);
    return undefined;
  };

  #take(caller: RatedCaller, rates: OwnRates): void {
    const hasOwn = rates.perKey !== null || rates.perWorkspace !== null;
    take(hasOwn ? [...this.#buckets, ...this.#ownBuckets(caller.workspaceId, rates)] : this.#buckets, caller);
  }

  /** Returns the buckets of a workspace's rates. Those of a rate that was changed are full. */
  #ownBuckets(workspaceId: string, rates: OwnRates): readonly Bucket[] {
    const known = this.#own.get(workspaceId);
    if (known !== undefined && isSame(known.rates, rates)) return known.buckets;
    const buckets = [
      ...this.#bucket("key", "rate_limit_key", rates.perKey, ({ keyId }) => keyId),
      ...this.#bucket("workspace", "rate_limit_workspace", rates.perWorkspace, () => ""),
    ];
    this.#own.set(workspaceId, { rates, buckets });
    return buckets;
  }

  #bucket(limit: Bucket["limit"], setting: RateSetting, rate: Rate | null, nameOf: Bucket["nameOf"]): Bucket[] {
    if (rate === null) return [];
    const { perSecond, burst } = rate;
    const bounds = { capacity: burst, refill: 1, intervalMs: 1_000 / perSecond, maxKeys: MAX_REMEMBERED };
    return [{ limit, setting, rate, nameOf, throttle: new Throttle({ ...bounds, now: this.#now }) }];
  }
}

const isSameRate = (one: Rate | null, other: Rate | null): boolean =>
  one?.perSecond === other?.perSecond && one?.burst === other?.burst;

const isSame = (one: OwnRates, other: OwnRates): boolean =>
  one === other || (isSameRate(one.perKey, other.perKey) && isSameRate(one.perWorkspace, other.perWorkspace));

/** Takes a call from every bucket, or from none if one is empty. */
function take(buckets: readonly Bucket[], caller: RatedCaller): void {
  const full = buckets.find(({ throttle, nameOf }) => throttle.isExhausted(nameOf(caller)));
  if (full !== undefined) throw rateLimited(full, full.throttle.waitMs(full.nameOf(caller)));
  for (const { throttle, nameOf } of buckets) throttle.take(nameOf(caller));
}

function rateLimited({ limit, setting, rate: { perSecond, burst } }: Bucket, waitMs: number): ControlPlaneError {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1_000)));
  const rate = `${perSecond} calls a second, ${burst} at once`;
  return new ControlPlaneError(
    ErrorReason.RATE_LIMITED,
    `the ${limit} has used up its rate (\`${setting}\`: ${rate}); retry in ${seconds} s`,
    { limit, setting, per_second: String(perSecond), burst: String(burst), retry_after_seconds: seconds },
  );
}
