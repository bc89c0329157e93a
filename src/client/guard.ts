import { AgentBlockedError, ApprovalPendingError, EscalationTimeoutError } from "./blocked-error.ts";
import type { ControlPlane } from "./control-plane.ts";
import type { InterceptAction, InterceptResult } from "./intercept.ts";
import { ControlPlaneRequestError, isUnreachable } from "./request-error.ts";
import { runWatched } from "./run-watched.ts";
import { DEFAULT_ESCALATION_POLL_INTERVAL, DEFAULT_ESCALATION_TIMEOUT } from "./wait-escalation.ts";

/** What the actions of a guarded function have in common. */
type CommonAction = Pick<
  InterceptAction,
  "agentId" | "actionType" | "tool" | "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "escalationId"
>;

/** How calls of a function become actions, and what happens to them. */
export interface GuardOptions<Args extends unknown[]> extends CommonAction {
  /**
   * The arguments that rules look at. MUST be JSON, and the same for the same arguments: it is read again before the
   * function runs, and what changed in between is not covered by the decision.
   */
  readonly toArguments: (...args: Args) => Readonly<Record<string, unknown>>;
  /** What the action is about, at most 65,536 bytes. MUST be the same for the same arguments. Default: the arguments as JSON. */
  readonly toContent?: ((...args: Args) => string) | undefined;
  /** What rules may look at beside the arguments. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Whether an escalated call waits for a human. Default true; else it throws `ApprovalPendingError`. */
  readonly waitOnEscalate?: boolean | undefined;
  /** Seconds that a human has. Default 300. */
  readonly escalationTimeout?: number | undefined;
  /** Seconds between looks at the status while no stream delivers. Default 2. */
  readonly escalationPollInterval?: number | undefined;
  /**
   * What happens when no decision can be had because the control plane is away or silent. Default `block`. `allow` runs the
   * function unchecked; it never overrides a decision, nor an escalation that is waited for.
   */
  readonly onUnreachable?: "block" | "allow" | undefined;
  /** Milliseconds that one intercept may take, retries included. Default: the control plane's. */
  readonly timeoutMs?: number | undefined;
  /** Ends waiting; the call then rejects with the signal's reason and the function does not run. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Whether a call whose function runs is ended when the agent is deactivated or revoked, or the session is killed.
   * Default true: the agent is watched while the function runs. A watch that cannot be opened changes nothing.
   */
  readonly abortWhenRevoked?: boolean | undefined;
  /** Told of every decision before it takes effect. What it throws keeps the function from running. */
  readonly onDecision?: ((result: InterceptResult, action: InterceptAction) => void) | undefined;
}

/** The guarded function: the parameters of the original, its result as a promise. */
export type Guarded<Args extends unknown[], Result> = (...args: Args) => Promise<Awaited<Result>>;

/** A function that is told, by a signal before its own parameters, when it must stop. */
export type Stoppable<Args extends unknown[], Result> = (signal: AbortSignal, ...args: Args) => Result;

/** One call of a guarded function on its way to a decision. */
interface GuardedCall<Args extends unknown[]> {
  readonly controlPlane: ControlPlane;
  readonly options: GuardOptions<Args>;
  readonly args: Args;
}

/**
 * Wraps a function so that it MUST NOT run unless the control plane allows exactly this call of it, or the control plane
 * cannot be reached and `onUnreachable` is `allow`. Else the call rejects: with `AgentBlockedError` for block,
 * rejection, time-out and an unreachable control plane; with `ApprovalPendingError`; with `ControlPlaneRequestError`
 * for a call that is refused as such. While the function runs the call rejects with `AgentStoppedError` as soon as the
 * agent must stop, unless `abortWhenRevoked` is false.
 */
export function guard<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: (...args: Args) => Result,
  options: GuardOptions<Args>,
): Guarded<Args, Result> {
  return guardWithSignal(
    controlPlane,
    function (this: unknown, _signal, ...args) {
      return fn.apply(this, args);
    },
    options,
  );
}

/**
 * The same for a function that stops by itself: its first argument is a signal that aborts with the error that the call
 * rejects with. The signal never aborts when `abortWhenRevoked` is false. The guarded function takes the others.
 */
export function guardWithSignal<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: Stoppable<Args, Result>,
  options: GuardOptions<Args>,
): Guarded<Args, Result> {
  const { agentId, sessionId, abortWhenRevoked = true } = options;
  return async function guarded(this: unknown, ...args: Args): Promise<Awaited<Result>> {
    await pass({ controlPlane, options, args });
    const run = (signal: AbortSignal): Result => fn.call(this, signal, ...args);
    if (!abortWhenRevoked) return await run(new AbortController().signal);
    return await runWatched(controlPlane.watchAgent(agentId), { agentId, sessionId }, run);
  };
}

/** Returns when the function may run; throws when it may not. */
async function pass<Args extends unknown[]>(call: GuardedCall<Args>): Promise<void> {
  const action = actionOf(call);
  const result = await decide(call, action);
  if (result === undefined) return;
  if (result.decision === "escalate") await passEscalated(call, action, result);
  else assertAllowed(result, action);
  assertUnchanged(call, action, result);
}

async function passEscalated<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  escalated: InterceptResult,
): Promise<void> {
  const { decisionId, reasons, escalationId } = escalated;
  if (escalationId === null)
    throw new AgentBlockedError(`${named(action)} escalated without an id`, "escalate", escalated);
  const { waitOnEscalate = true } = call.options;
  if (!waitOnEscalate) throw new ApprovalPendingError(action, { escalationId, decisionId, reasons });
  const verdict = await verdictOn(call, escalationId, escalated);
  if (verdict === "rejected") {
    throw new AgentBlockedError(`${named(action)} was rejected: escalation \`${escalationId}\``, "escalate", escalated);
  }
  // The arguments are read again: an approval is presented for what would run now, not for what was asked then.
  const approved = { ...actionOf(call), escalationId };
  const result = await decide(call, approved);
  if (result !== undefined) assertAllowed(result, approved);
}

async function verdictOn<Args extends unknown[]>(
  { controlPlane, options }: GuardedCall<Args>,
  escalationId: string,
  escalated: InterceptResult,
): Promise<"approved" | "rejected"> {
  const {
    escalationTimeout: timeout = DEFAULT_ESCALATION_TIMEOUT,
    escalationPollInterval: pollInterval = DEFAULT_ESCALATION_POLL_INTERVAL,
    signal,
  } = options;
  try {
    return await controlPlane.waitForEscalation(escalationId, { timeout, pollInterval, signal });
  } catch (error) {
    if (!(error instanceof EscalationTimeoutError)) throw error;
    throw new EscalationTimeoutError(escalationId, timeout, { ...escalated, cause: error.cause });
  }
}

/** The decision on an action; undefined when none could be had and the options let the call pass without. */
async function decide<Args extends unknown[]>(
  { controlPlane, options }: GuardedCall<Args>,
  action: InterceptAction,
): Promise<InterceptResult | undefined> {
  const { signal, timeoutMs, onDecision, onUnreachable = "block" } = options;
  // INVARIANT: only the intercept itself can let a call pass unchecked; what `onDecision` throws never does.
  const answer = await controlPlane.intercept(action, { signal, timeoutMs }).catch(unansweredFrom);
  if ("decision" in answer) {
    onDecision?.(answer, action);
    return answer;
  }
  if (onUnreachable === "allow") return undefined;
  throw new AgentBlockedError(`no decision could be had: ${answer.message}`, null, { cause: answer });
}

/** Gives the fault when the control plane could not be reached; throws any other. */
function unansweredFrom(error: unknown): ControlPlaneRequestError {
  if (error instanceof ControlPlaneRequestError && isUnreachable(error)) return error;
  throw error;
}

function actionOf<Args extends unknown[]>({ options, args }: GuardedCall<Args>): InterceptAction {
  const { agentId, actionType, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId } = options;
  // Copied, so that what is sent and what is compared later stay what they are now.
  const values = JSON.parse(JSON.stringify(options.toArguments(...args))) as Record<string, unknown>;
  return {
    ...{ agentId, actionType, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId },
    actionContent: options.toContent?.(...args) ?? JSON.stringify(values),
    metadata: { ...options.metadata, arguments: values },
  };
}

function assertAllowed(result: InterceptResult, action: InterceptAction): void {
  if (result.decision === "allow") return;
  const why = result.reasons.map(({ message }) => message).join("; ");
  const verb = result.decision === "block" ? "is blocked" : "needs an approval of its own";
  throw new AgentBlockedError(`${named(action)} ${verb}${why === "" ? "" : `: ${why}`}`, result.decision, result);
}

/** Between the request and the answer the caller may have changed what it passed; that was not decided on. */
function assertUnchanged<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  result: InterceptResult,
): void {
  call.options.signal?.throwIfAborted();
  if (JSON.stringify(actionOf(call)) === JSON.stringify(action)) return;
  const text = `the arguments of ${named(action)} changed while it was decided`;
  throw new AgentBlockedError(text, "block", { decisionId: result.decisionId, escalationId: result.escalationId });
}

function named({ actionType }: InterceptAction): string {
  return `\`${actionType}\``;
}
