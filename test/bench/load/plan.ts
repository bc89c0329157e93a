/** Where a load goes and who it comes from. */
export interface Target {
  /** `host:port`. */
  readonly address: string;
  readonly apiKey: string;
  /** The agents that act. */
  readonly agentIds: readonly string[];
}

/** What the load process makes itself. */
export type Source =
  | {
      readonly kind: "unary";
      readonly target: Target;
      readonly callers: number;
      /** Whether all callers share one connection. Default: each has its own, as a runtime of its own would. */
      readonly isShared?: boolean;
    }
  | { readonly kind: "stream"; readonly target: Target; readonly streams: number; readonly inFlight: number }
  | { readonly kind: "rest"; readonly target: Target; readonly callers: number }
  /** Several loads side by side. */
  | { readonly kind: "together"; readonly sources: readonly Source[] }
  /** The bare insert: rows of the service's log, so many to a statement, over one connection. */
  | { readonly kind: "insert"; readonly databaseUrl: string; readonly rows: number };

/** What a tool of the machine makes. Its replies are not looked into, and are shown to be decisions otherwise. */
export type ToolSource =
  | {
      readonly kind: "h2load";
      readonly target: Target;
      readonly callers: number;
      readonly isShared: boolean;
      /** Whose log MUST grow by an entry for each reply. Absent: the target keeps none. */
      readonly databaseUrl?: string;
    }
  | { readonly kind: "wrk"; readonly target: Target; readonly callers: number };

/** One measurement. */
export interface LoadPlan {
  readonly source: Source | ToolSource;
  /** Milliseconds before anything is counted. */
  readonly warmUpMs: number;
  /** Milliseconds that are measured. */
  readonly measureMs: number;
  /** Processes whose use of the processor is measured with it. */
  readonly watched: { readonly service?: number | undefined; readonly database?: number | undefined };
}

/** What a measurement came to. */
export interface Measured {
  /** Replies, or rows, a second. */
  readonly perSecond: number;
  /** Milliseconds that half of the calls stayed within; of statements for the bare insert. */
  readonly p50: number;
  /** Milliseconds that 99 of 100 stayed within. */
  readonly p99: number;
  /** Microseconds of processor time for each reply; undefined where the system does not tell. */
  readonly serviceCpu: number | undefined;
  readonly databaseCpu: number | undefined;
  /** The same of what made the load. */
  readonly loadCpu: number | undefined;
}
