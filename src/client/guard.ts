import type { AgentWatch } from "./agent-watch.ts";
import { AgentBlockedError, AgentStoppedError, type DecisionDetails, EscalationTimeoutError } from "./blocked-error.ts";
import type { ControlPlane } from "./control-plane.ts";
import { createDeferred } from "./deferred.ts";
import type { InterceptAction, InterceptResult } from "./intercept-call.ts";
import { PendingApproval } from "./pending-approval.ts";
import { ControlPlaneRequestError, isUnreachable } from "./request-error.ts";
import { createRequestId, presentationId } from "./request-id.ts";
import {
  DEFAULT_ESCALATION_POLL_INTERVAL,
  DEFAULT_ESCALATION_TIMEOUT,
  type EditedApproval,
  type EscalationVerdict,
  type Rejection,
} from "./wait-escalation.ts";

/** Fields that the actions of a guarded function have in common. */
type CommonAction = Pick<
  InterceptAction,
  "agentId" | "actionType" | "tool" | "sessionId" | "onBehalfOf" | "grantId" | "intentContractId" | "escalationId"
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
  /** Called before a function runs unchecked, with the fault. If it throws, the function does not run. */
  readonly onUnchecked?: ((fault: ControlPlaneRequestError, action: InterceptAction) => void) | undefined;
  /** Milliseconds that one intercept may take, retries included. Default: the control plane's. */
  readonly timeoutMs?: number | undefined;
  /** Ends waiting; the call then rejects with the signal's reason and the function does not run. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Ends a call whose function is running when the agent is deactivated or revoked, or the session is killed. Default true:
   * the agent is watched while the function runs. A watch that cannot be opened has no effect.
   */
  readonly abortWhenRevoked?: boolean | undefined;
  /** Called with every decision before it takes effect. If it throws, the function does not run. */
  readonly onDecision?: ((result: InterceptResult, action: InterceptAction) => void) | undefined;
}

/** Options of a call that runs with other arguments where an approver allowed those in place of its own. */
export interface EditableGuardOptions<Args extends unknown[]> extends Omit<GuardOptions<Args>, "acceptEdits"> {
  readonly acceptEdits: true;
  /**
   * Returns the parameters with which the function runs instead: the reverse of `toArguments`. `edited` is what the approver
   * allowed, a copy; `args` are the parameters of the call. `toArguments` of the result MUST be equal to `edited` as JSON, else the
   * call is blocked: nothing runs that nobody allowed.
   */
  readonly fromArguments: (edited: Readonly<Record<string, unknown>>, ...args: Args) => Args;
}

/** Options of a call that returns a `PendingApproval` at once when its action escalates, and does not wait. */
export interface UnwaitingGuardOptions<Args extends unknown[]>
  extends Omit<GuardOptions<Args>, "waitOnEscalate" | "acceptEdits"> {
  readonly waitOnEscalate: false;
  readonly acceptEdits?: false | undefined;
}

type AnyGuardOptions<Args extends unknown[]> =
  | GuardOptions<Args>
  | EditableGuardOptions<Args>
  | UnwaitingGuardOptions<Args>;

/** The guarded function: takes the parameters of the original and returns its result as a promise. */
export type Guarded<Args extends unknown[], Result> = (...args: Args) => Promise<Awaited<Result>>;

/** A function whose first parameter is a signal that aborts when it must stop. */
export type Stoppable<Args extends unknown[], Result> = (signal: AbortSignal, ...args: Args) => Result;

/** One call of a guarded function. */
interface GuardedCall<Args extends unknown[]> {
  /** `request_id` of the first attempt, from which those of presented approvals follow. */
  readonly requestId: string;
  readonly controlPlane: ControlPlane;
  readonly options: AnyGuardOptions<Args>;
  /** The parameters of the call, or those that an approver's edit led to. */
  readonly args: Args;
  /** The content that the approval of an edited action covers. Undefined: that of the parameters. */
  readonly content?: string | undefined;
}

/**
 * Wraps a function so that it MUST NOT run unless the control plane allows exactly this call of it, or the control plane
 * cannot be reached and `onUnreachable` is `allow`. Otherwise the call rejects: with `AgentBlockedError` for a block, a
 * rejection, a time-out and an unreachable control plane; with `ControlPlaneRequestError` for an invalid request. While the function runs, the call rejects with `AgentStoppedError` as soon as the agent must stop,
 * unless `abortWhenRevoked` is false.
 */
export function guard<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: (...args: Args) => Result,
  options: AnyGuardOptions<Args>,
): Guarded<Args, Result | PendingApproval> {
  return guardWithSignal(
    controlPlane,
    function (this: unknown, _signal, ...args) {
      return fn.apply(this, args);
    },
    options,
  );
}

/**
 * Like `guard`, for a function that can stop early: its first argument is a signal that aborts with the error that the call
 * rejects with. It never aborts when `abortWhenRevoked` is false. The guarded function takes the other arguments.
 */
export function guardWithSignal<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: Stoppable<Args, Result>,
  options: AnyGuardOptions<Args>,
): Guarded<Args, Result | PendingApproval> {
  const { abortWhenRevoked = true } = options;
  if (options.acceptEdits === true && typeof options.fromArguments !== "function")
    throw new TypeError("`acceptEdits` needs `fromArguments`, which turns edited arguments into parameters");
  return async function guarded(this: unknown, ...args: Args): Promise<Awaited<Result> | PendingApproval> {
    const permitted = await permit({ requestId: createRequestId(), controlPlane, options, args });
    if (permitted instanceof PendingApproval) return permitted;
    const run = (signal: AbortSignal): Result => fn.call(this, signal, ...permitted);
    if (!abortWhenRevoked) return await run(new AbortController().signal);
    return await runWatched(controlPlane.watchAgent(options.agentId), options, run);
  };
}

/** Resolves with the parameters that the function may run with, or the approval that is not waited for; rejects otherwise. */
async function permit<Args extends unknown[]>(call: GuardedCall<Args>): Promise<PendingApproval | Args> {
  const action = actionFrom(call);
  const result = await decide(call, { ...action, requestId: call.requestId });
  if (result === undefined) return call.args;
  if (result.decision === "escalate") {
    if (call.options.waitOnEscalate === false) return new PendingApproval(result, askedIn(result, action), action);
    return (await awaitApproval(call, action, result)).args;
  }
  assertAllowed(result, action);
  assertUnchanged(call, action, result);
  return call.args;
}

/** Returns the id of the escalation that a decision asks for. */
function askedIn(result: InterceptResult, action: InterceptAction): string {
  if (result.escalationId !== null) return result.escalationId;
  throw new AgentBlockedError(`${named(action)} escalated without an id`, "escalate", result);
}

/**
 * Waits until the action is approved and this call is the one that the approval admits. Returns the call as approved: with other
 * parameters if an approver edited the arguments and the options accept that.
 */
async function awaitApproval<Args extends unknown[]>(
  asked: GuardedCall<Args>,
  askedAction: InterceptAction,
  escalated: InterceptResult,
): Promise<GuardedCall<Args>> {
  const { escalationTimeout = DEFAULT_ESCALATION_TIMEOUT } = asked.options;
  const endsAt = performance.now() + escalationTimeout * 1000;
  let [call, action] = [asked, askedAction];
  for (let waiting = escalated; ; ) {
    const escalationId = askedIn(waiting, action);
    let note: string | null = null;
    const onRejected = (rejection: Rejection): void => {
      note = rejection.note;
    };
    const verdict = await awaitVerdict(call, { escalationId, escalated: waiting, endsAt, onRejected });
    if (verdict === "rejected") throw rejected(action, { ...waiting, escalationId, note });
    const isEdited = verdict !== "approved";
    if (isEdited) {
      call = editedCall(call, verdict, waiting);
      action = actionFrom(call);
    }
    const approvedId = isEdited ? verdict.escalationId : escalationId;
    // Reads the arguments again: the approval has to cover what would run now, not what was sent for approval.
    const requestId = presentationId(asked.requestId, approvedId ?? escalationId);
    const approved = { ...actionFrom(call), ...(approvedId !== null && { escalationId: approvedId }), requestId };
    const result = await decide(call, approved);
    const waitsOn = approvedId === null && result?.decision === "escalate";
    if (result === undefined || !(waitsOn || isSpent(result))) {
      if (result !== undefined) assertAllowed(result, approved);
      assertUnchanged(call, action, result ?? waiting);
      return call;
    }
    // Another call of the agent asked for the same action and was admitted, or an edited action needs an approval by now: this
    // one waits for the next approval.
    waiting = result;
  }
}

function rejected(action: InterceptAction, details: DecisionDetails): AgentBlockedError {
  const { escalationId, note } = details;
  const said = note === null || note === undefined || note === "" ? "" : `. The person said: ${note}`;
  return new AgentBlockedError(
    `${named(action)} was rejected: escalation \`${escalationId}\`${said}`,
    "escalate",
    details,
  );
}

/** Returns a call with the parameters that an approver's edit stands for. Throws unless they stand for exactly that. */
function editedCall<Args extends unknown[]>(
  call: GuardedCall<Args>,
  edit: EditedApproval,
  escalated: InterceptResult,
): GuardedCall<Args> {
  const { options, args } = call;
  if (options.acceptEdits !== true) throw new AgentBlockedError("the call accepts no edits", "escalate", escalated);
  const approved = options.fromArguments(structuredClone(edit.arguments), ...args);
  const edited = { ...call, args: approved, content: edit.actionContent ?? undefined };
  if (isSameJson(actionFrom(edited).metadata?.arguments, edit.arguments)) return edited;
  const text = `\`fromArguments\` gave other arguments for \`${options.actionType}\` than those that were approved`;
  throw new AgentBlockedError(text, "escalate", escalated);
}

/** Compares JSON values; the order of members does not count. */
function isSameJson(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return one === other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [names, others] = [Object.keys(one), Object.keys(other)];
  if (names.length !== others.length) return false;
  const memberOf = (object: object, name: string): unknown => (object as Record<string, unknown>)[name];
  return names.every((name) => Object.hasOwn(other, name) && isSameJson(memberOf(one, name), memberOf(other, name)));
}

/** Codes of the reasons for an approval that covers the action but admits it no more. */
const SPENT_CODES: readonly string[] = ["APPROVAL_USED", "APPROVAL_EXPIRED"];

const isSpent = ({ decision, reasons }: InterceptResult): boolean =>
  decision === "escalate" && reasons.some(({ code }) => SPENT_CODES.includes(code));

/** The verdict that a call waits for. */
interface AwaitedVerdict {
  readonly escalationId: string;
  readonly escalated: InterceptResult;
  /** Monotonic milliseconds. */
  readonly endsAt: number;
  readonly onRejected: (rejection: Rejection) => void;
}

async function awaitVerdict<Args extends unknown[]>(
  { controlPlane, options }: GuardedCall<Args>,
  { escalationId, escalated, endsAt, onRejected }: AwaitedVerdict,
): Promise<EscalationVerdict | EditedApproval> {
  const {
    escalationTimeout = DEFAULT_ESCALATION_TIMEOUT,
    escalationPollInterval: pollInterval = DEFAULT_ESCALATION_POLL_INTERVAL,
    signal,
  } = options;
  const timeout = Math.max(0, (endsAt - performance.now()) / 1000);
  try {
    const limits = { timeout, pollInterval, signal, onRejected };
    if (options.acceptEdits !== true) return await controlPlane.waitForEscalation(escalationId, limits);
    return await controlPlane.waitForEscalation(escalationId, { ...limits, acceptEdits: true });
  } catch (error) {
    if (!(error instanceof EscalationTimeoutError)) throw error;
    throw new EscalationTimeoutError(escalationId, escalationTimeout, { ...escalated, cause: error.cause });
  }
}

/** Returns the decision on an action; undefined when there is none and the options allow the call without. */
async function decide<Args extends unknown[]>(
  { controlPlane, options }: GuardedCall<Args>,
  action: InterceptAction,
): Promise<InterceptResult | undefined> {
  const { signal, timeoutMs, onDecision, onUnchecked, onUnreachable = "block" } = options;
  // INVARIANT: only a failed intercept can let a call pass unchecked; an exception of `onDecision` never does.
  const result = await controlPlane.intercept(action, { signal, timeoutMs }).catch(unreachableOrThrow);
  if ("decision" in result) {
    onDecision?.(result, action);
    return result;
  }
  if (onUnreachable === "allow") {
    onUnchecked?.(result, action);
    return undefined;
  }
  throw new AgentBlockedError(`no decision could be had: ${result.message}`, null, { cause: result });
}

/** Returns the fault if the control plane could not be reached; throws any other. */
function unreachableOrThrow(error: unknown): ControlPlaneRequestError {
  if (error instanceof ControlPlaneRequestError && isUnreachable(error)) return error;
  throw error;
}

function actionFrom<Args extends unknown[]>({ options, args, content }: GuardedCall<Args>): InterceptAction {
  const { agentId, actionType, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId } = options;
  // Copied, so that later changes to the arguments do not change the action that was sent.
  const values = JSON.parse(JSON.stringify(options.toArguments(...args))) as Record<string, unknown>;
  return {
    ...{ agentId, actionType, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId },
    actionContent: content ?? options.toContent?.(...args) ?? JSON.stringify(values),
    metadata: { ...options.metadata, arguments: values },
  };
}

function assertAllowed(result: InterceptResult, action: InterceptAction): void {
  if (result.decision === "allow") return;
  const why = result.reasons.map(({ message }) => message).join("; ");
  const verb = result.decision === "block" ? "is blocked" : "needs an approval of its own";
  throw new AgentBlockedError(`${named(action)} ${verb}${why === "" ? "" : `: ${why}`}`, result.decision, result);
}

/** Throws if the caller changed the arguments between request and decision: that call was not decided on. */
function assertUnchanged<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  result: InterceptResult,
): void {
  call.options.signal?.throwIfAborted();
  if (JSON.stringify(actionFrom(call)) === JSON.stringify(action)) return;
  const text = `the arguments of ${named(action)} changed while it was decided`;
  throw new AgentBlockedError(text, "block", { decisionId: result.decisionId, escalationId: result.escalationId });
}

function named({ actionType }: InterceptAction): string {
  return `\`${actionType}\``;
}

/**
 * Runs a function until it is done or its agent must stop: then rejects with the `AgentStoppedError` at once and aborts the
 * function's signal with the same error. Does not run it if that is known already. Closes the watch.
 */
async function runWatched<Result>(
  watch: AgentWatch,
  { agentId, sessionId }: CommonAction,
  run: (signal: AbortSignal) => Result,
): Promise<Awaited<Result>> {
  const stopped = new AbortController();
  const { promise: stop, reject } = createDeferred<never>();
  stop.catch(() => undefined);
  const stopWith = (error: unknown): void => {
    // Rejects first: otherwise the function's own error about its signal could win the race.
    reject(error);
    stopped.abort(error);
  };
  const onAbort = () => stopWith(watch.signal.reason);
  try {
    watch.signal.throwIfAborted();
    watch.signal.addEventListener("abort", onAbort, { once: true });
    if (sessionId !== undefined) {
      watch.onSessionKilled(sessionId, () => stopWith(new AgentStoppedError(agentId, { change: "killed", sessionId })));
    }
    stopped.signal.throwIfAborted();
    return await Promise.race([stop, run(stopped.signal)]);
  } finally {
    watch.signal.removeEventListener("abort", onAbort);
    watch.close();
  }
}
