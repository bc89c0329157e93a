/** Where a load goes and who it comes from. */
export interface Target {
  /** `host:port`. */
  readonly address: string;
  readonly apiKey: string;
  /** The agents that act. */
  readonly agentIds: readonly string[];
}

/** A kind of load. */
export type Source =
  | {
      readonly kind: "unary";
      readonly target: Target;
      readonly callers: number;
      /** Whether all callers share one connection. Default: each has its own, as a runtime of its own would. */
      readonly isShared?: boolean;
      /** The database whose log MUST grow by an entry for each reply. Absent: the target keeps no log. */
      readonly databaseUrl?: string;
    }
  | {
      readonly kind: "stream";
      /** The streams go to them in turn. */
      readonly targets: readonly Target[];
      readonly streams: number;
      /** Requests in flight on each stream. */
      readonly inFlight: number;
    }
  | { readonly kind: "rest"; readonly target: Target; readonly callers: number }
  /** Bare inserts of rows of the service's log, so many to a statement, over one connection. */
  | { readonly kind: "insert"; readonly databaseUrl: string; readonly rows: number };

/** Processes whose use of the processor is measured beside the load. */
export interface Watched {
  readonly service?: number | undefined;
  readonly database?: number | undefined;
}

/** One measurement. */
export interface LoadPlan {
  readonly source: Source;
  /** Milliseconds before anything is counted. A whole number, as tools and timers take it, like `measureMs`. */
  readonly warmUpMs: number;
  readonly measureMs: number;
  readonly watched: Watched;
}

/** Result of a measurement. */
export interface Measured {
  /** Replies, or rows, a second. */
  readonly perSecond: number;
  /** Milliseconds that half of the calls, or statements of the bare insert, stayed within. */
  readonly p50: number;
  /** Milliseconds that 99 of 100 stayed within. */
  readonly p99: number;
  /** Microseconds of processor time for each reply; undefined where the system does not tell. */
  readonly serviceCpu: number | undefined;
  readonly databaseCpu: number | undefined;
  /** The same of the process or tool that made the load. */
  readonly loadCpu: number | undefined;
}

/** A run of a load, before the use of processors is known. */
export type Run = Pick<Measured, "perSecond" | "p50" | "p99"> & { readonly replies: number };

/** The gRPC path of the unary call. */
export const UNARY_PATH = "/agentcontrol.v1.EnforcementService/Intercept";
/** The gRPC path of the stream. */
export const STREAM_PATH = "/agentcontrol.v1.EnforcementService/InterceptStream";
/** The REST path of the unary call. */
export const REST_PATH = "/v1/enforce/intercept";

/** Returns the value that a share of the values, 0 to 1, stays within; NaN for none. The values MUST be in order. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
