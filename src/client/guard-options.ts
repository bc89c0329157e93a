import type { InterceptAction, InterceptResult } from "./intercept-call.ts";
import type { PendingApproval } from "./pending-approval.ts";
import type { ControlPlaneRequestError } from "./request-error.ts";

/** Fields that all actions of a guarded function share. */
export interface CommonAction
  extends Pick<
    InterceptAction,
    "tool" | "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "escalationId" | "requestId"
  > {
  /** The acting agent. Default: the control plane's `agentId`. */
  readonly agentId?: string | undefined;
  /** Kind of action, such as `payment.send`. Default: the name in `tool`. */
  readonly actionType?: string | undefined;
}

/** Options of a guarded function: how its calls become actions, and how decisions are handled. */
export interface GuardOptions<Args extends unknown[]> extends CommonAction {
  /**
   * Returns the arguments that rules evaluate. MUST return JSON, and the same value for the same arguments: it is called again
   * before the function runs, and the call is blocked if the value has changed. Default for a function that takes no parameter, or
   * one object: the members of this object.
   */
  readonly toArguments: (...args: Args) => Readonly<Record<string, unknown>>;
  /** Describes the action, in less than 1 MiB. MUST be the same for the same arguments. Default: the arguments as JSON. */
  readonly toContent?: ((...args: Args) => string) | undefined;
  /** Further input to the rules, besides the arguments. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** True means that an escalated call waits for a person. See `UnwaitingGuardOptions`. */
  readonly waitOnEscalate?: true | undefined;
  /** False means that a call is rejected if a person approved other arguments. See `EditableGuardOptions`. */
  readonly acceptEdits?: false | undefined;
  /** Seconds to wait for a person. Default 300. */
  readonly escalationTimeout?: number | undefined;
  /** Seconds between polls of the status while no stream delivers. Default 2. */
  readonly escalationPollInterval?: number | undefined;
  /**
   * Behaviour if no connection to the control plane can be made: nothing listens, no way to its host, no such name. Default
   * `block`. `allow` runs the function unchecked. It never does so once a request may have arrived, which may have been decided:
   * not after a broken connection, no response in time, or an answer of something in between. Nor does it with a `requestId` or an
   * `escalationId` of the caller's, which an earlier call may have used, nor for a claim without an answer. Browsers do not say why a
   * request failed, so there it has no effect.
   */
  readonly onUnreachable?: "block" | "allow" | undefined;
  /**
   * Called with the fault before a function runs unchecked. A returned promise is awaited. If the hook throws or rejects, the
   * function does not run.
   */
  readonly onUnchecked?: ((fault: ControlPlaneRequestError, action: InterceptAction) => unknown) | undefined;
  /** Time limit of one intercept, claim or report in milliseconds, retries included. Default: the control plane's `timeoutMs`. */
  readonly timeoutMs?: number | undefined;
  /**
   * Cancels the call: it rejects with the signal's reason, the function does not run, and a pending request for approval is
   * withdrawn. Once the function runs, an abort only aborts the signal that `guardWithSignal` passes to it.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * True ends a call whose function is running when the agent is deactivated or revoked, or the session is killed: the agent is
   * watched while the function runs. A watch that cannot be opened has no effect. Default true.
   */
  readonly abortWhenRevoked?: boolean | undefined;
  /**
   * Called with every decision before it takes effect. A returned promise is awaited. If the hook throws or rejects, the function
   * does not run.
   */
  readonly onDecision?: ((result: InterceptResult, action: InterceptAction) => unknown) | undefined;
}

/** Options that say how the outcome of a guarded function's action is reported. `Result` is what the function returns or resolves with. */
export interface OutcomeOptions<Result> extends ObserveOption {
  /**
   * False leaves reporting to the caller: calls still claim their actions, whose outcomes are then tracked only if they reserved in a
   * budget, or if the workspace tracks all. Default true.
   */
  readonly report?: boolean | undefined;
  /**
   * Returns the amount that an action came to, by the result of its function: budgets capture it in place of what was reserved. At most six
   * places. Default, and if it throws or returns undefined: what was reserved.
   */
  readonly amount?: ((result: Result) => number | undefined) | undefined;
  /** Tests for a result that tells of a failure, which is reported as `failed`. Default: only an error is one. */
  readonly isFailure?: ((result: Result) => boolean) | undefined;
}

/** Option that says whether sessions observe what guarded functions return. */
export interface ObserveOption {
  /**
   * True tells the session of a call what the function returned, a text as it is and anything else as JSON, or the text of its error, before
   * the call ends. If that fails, the call rejects with a `ResultWithheldError` in place of the result. A call without a session tells
   * nothing, nor does one that ran unchecked. Default false.
   */
  readonly observe?: boolean | undefined;
}

/** Option, for adapters only, of a function that decides an action which somebody else claims and runs. */
export const ASKS_ONLY: unique symbol = Symbol.for("agent-control-plane.asks-only");

/** Options of a guarded function whose calls run with the arguments that a person approved instead. */
export interface EditableGuardOptions<Args extends unknown[]> extends Omit<GuardOptions<Args>, "acceptEdits"> {
  readonly acceptEdits: true;
  /**
   * Returns the parameters with which the function runs instead: the reverse of `toArguments`. `edited` is a copy of the approved
   * arguments; `args` are the parameters of the call. `toArguments` of the result MUST equal `edited` as JSON; otherwise the call
   * is blocked, so that nothing runs without approval.
   */
  readonly fromArguments: (edited: Readonly<Record<string, unknown>>, ...args: Args) => [...Args];
}

/** Options of a guarded function whose calls return a `PendingApproval` at once when they escalate. */
export interface UnwaitingGuardOptions<Args extends unknown[]>
  extends Omit<GuardOptions<Args>, "waitOnEscalate" | "acceptEdits"> {
  readonly waitOnEscalate: false;
  readonly acceptEdits?: false | undefined;
}

/** Options of any guarded function. */
export type AnyGuardOptions<Args extends unknown[]> =
  | GuardOptions<Args>
  | EditableGuardOptions<Args>
  | UnwaitingGuardOptions<Args>;

/** Options with defaults for those that the types of `ControlPlane.guard` require. */
export type LooseGuardOptions<Args extends unknown[]> = WithoutArguments<AnyGuardOptions<Args>>;

/** Options of which `toArguments` may be left out. */
type WithoutArguments<Options extends { readonly toArguments: unknown }> = Options extends unknown
  ? Omit<Options, "toArguments"> & { readonly toArguments?: Options["toArguments"] | undefined }
  : never;

/**
 * Options of a function. `toArguments` may be left out if the function takes no parameter, or one object: its members are then the
 * arguments that rules evaluate.
 */
export type GuardOptionsFor<Args extends unknown[]> = Args extends readonly [readonly unknown[]]
  ? AnyGuardOptions<Args>
  : Args extends readonly [] | readonly [object]
    ? LooseGuardOptions<Args>
    : AnyGuardOptions<Args>;

/** The option that says whether an escalated call waits. */
export interface WaitOption<Waits extends boolean> {
  readonly waitOnEscalate?: Waits | undefined;
}

/** Result of a guarded function whose calls wait or do not wait. */
export type GuardResult<Result, Waits extends boolean> = Waits extends true ? Result : Result | PendingApproval;

/** Options of single calls, which override the options of the guarded function. An undefined option changes nothing. */
export interface GuardCallOptions
  extends Pick<
    InterceptAction,
    "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "escalationId" | "requestId"
  > {
  /** Cancels the call, as does the signal in the function's options. */
  readonly signal?: AbortSignal | undefined;
}

/** A guarded function: it takes the parameters of the original and returns its result as a promise. */
export interface Guarded<Args extends unknown[], Result> {
  (...args: Args): Promise<Awaited<Result>>;
  /** Returns the same guarded function with other options for its calls. */
  with(options: GuardCallOptions): Guarded<Args, Result>;
}

/** A function whose first parameter is a signal that aborts when it must stop. */
export type Stoppable<Args extends unknown[], Result> = (signal: AbortSignal, ...args: Args) => Result;
