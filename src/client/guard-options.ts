import type { InterceptAction, InterceptResult } from "./intercept-call.ts";
import type { ControlPlaneRequestError } from "./request-error.ts";

/** Fields that the actions of a guarded function have in common. */
export type CommonAction = Pick<
  InterceptAction,
  | "agentId"
  | "actionType"
  | "tool"
  | "sessionId"
  | "onBehalfOf"
  | "grantId"
  | "intentContractId"
  | "escalationId"
  | "requestId"
>;

/** Turns calls of a function into actions, and says how each decision is handled. */
export interface GuardOptions<Args extends unknown[]> extends CommonAction {
  /**
   * Returns the arguments that rules evaluate. MUST return JSON, and the same for the same arguments: it is called again
   * before the function runs, and the call is blocked if the result changed in between.
   */
  readonly toArguments: (...args: Args) => Readonly<Record<string, unknown>>;
  /** Describes the action, in less than 1 MiB. MUST be the same for the same arguments. Default: the arguments as JSON. */
  readonly toContent?: ((...args: Args) => string) | undefined;
  /** Further input to the rules, beside the arguments. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** True: an escalated call waits for an approver. See `UnwaitingGuardOptions`. */
  readonly waitOnEscalate?: true | undefined;
  /** False: a call that an approver allowed only with other arguments is rejected. See `EditableGuardOptions`. */
  readonly acceptEdits?: false | undefined;
  /** Seconds that an approver has. Default 300. */
  readonly escalationTimeout?: number | undefined;
  /** Seconds between polls of the status while no stream delivers. Default 2. */
  readonly escalationPollInterval?: number | undefined;
  /**
   * Handles a control plane that cannot be reached or does not respond: a fault of the network, no answer in time, or an answer
   * that says "unavailable". Default `block`. `allow` runs the function unchecked; it overrides neither a decision nor an
   * escalation that is waited for, and a wrong address or key is no such fault.
   */
  readonly onUnreachable?: "block" | "allow" | undefined;
  /**
   * Called before a function runs unchecked, with the fault. A promise is waited for. If it throws or rejects, the function does
   * not run.
   */
  readonly onUnchecked?: ((fault: ControlPlaneRequestError, action: InterceptAction) => unknown) | undefined;
  /** Milliseconds that one intercept may take, retries included. Default: the control plane's. */
  readonly timeoutMs?: number | undefined;
  /**
   * Gives the call up: it rejects with the signal's reason, the function does not run, and an approval that it waited for is no
   * longer asked for. Once the function runs, only the signal that `guardWithSignal` passes to it aborts.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Ends a call whose function is running when the agent is deactivated or revoked, or the session is killed. Default true:
   * the agent is watched while the function runs. A watch that cannot be opened has no effect.
   */
  readonly abortWhenRevoked?: boolean | undefined;
  /**
   * Called with every decision before it takes effect. A promise is waited for. If it throws or rejects, the function does not
   * run.
   */
  readonly onDecision?: ((result: InterceptResult, action: InterceptAction) => unknown) | undefined;
}

/** Options of a call that runs with other arguments where an approver allowed those in place of its own. */
export interface EditableGuardOptions<Args extends unknown[]> extends Omit<GuardOptions<Args>, "acceptEdits"> {
  readonly acceptEdits: true;
  /**
   * Returns the parameters with which the function runs instead: the reverse of `toArguments`. `edited` is what the approver
   * allowed, a copy; `args` are the parameters of the call. `toArguments` of the result MUST be equal to `edited` as JSON, else the
   * call is blocked: nothing runs that nobody allowed.
   */
  readonly fromArguments: (edited: Readonly<Record<string, unknown>>, ...args: Args) => [...Args];
}

/** Options of a call that returns a `PendingApproval` at once when its action escalates, and does not wait. */
export interface UnwaitingGuardOptions<Args extends unknown[]>
  extends Omit<GuardOptions<Args>, "waitOnEscalate" | "acceptEdits"> {
  readonly waitOnEscalate: false;
  readonly acceptEdits?: false | undefined;
}

/** The options of any guarded function. */
export type AnyGuardOptions<Args extends unknown[]> =
  | GuardOptions<Args>
  | EditableGuardOptions<Args>
  | UnwaitingGuardOptions<Args>;

/** Options of single calls, in place of those that the function was wrapped with. An undefined one changes nothing. */
export interface GuardCallOptions
  extends Pick<
    InterceptAction,
    "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "escalationId" | "requestId"
  > {
  /** Gives the call up, as does the signal of the wrapped function. */
  readonly signal?: AbortSignal | undefined;
}

/** The guarded function: takes the parameters of the original and returns its result as a promise. */
export interface Guarded<Args extends unknown[], Result> {
  (...args: Args): Promise<Awaited<Result>>;
  /** Returns the same guarded function with other options for the calls that are made through it. */
  with(options: GuardCallOptions): Guarded<Args, Result>;
}

/** A function whose first parameter is a signal that aborts when it must stop. */
export type Stoppable<Args extends unknown[], Result> = (signal: AbortSignal, ...args: Args) => Result;
