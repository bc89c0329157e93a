import { AgentBlockedError, type DecisionDetails, EscalationTimeoutError } from "./blocked-error.ts";
import {
  claimAllowed,
  giveUp,
  type ReportingCall,
  reportReturned,
  reportThrown,
  unlessCancelled,
} from "./claimed-action.ts";
import type { ControlPlane } from "./control-plane.ts";
import { unlessAborted } from "./deferred.ts";
import {
  type AnyGuardOptions,
  ASKS_ONLY,
  type GuardCallOptions,
  type Guarded,
  type GuardOptions,
  type LooseGuardOptions,
  type OutcomeOptions,
  type Stoppable,
} from "./guard-options.ts";
import type { InterceptAction, InterceptResult } from "./intercept-call.ts";
import { blockedText, refusedText, rejectedText, unansweredText, uncheckedText } from "./model-text.ts";
import { type Observation, ResultWithheldError, tellResult } from "./observation.ts";
import { PendingApproval } from "./pending-approval.ts";
import { ControlPlaneRequestError, isUnreachable } from "./request-error.ts";
import { createRequestId, presentationId } from "./request-id.ts";
import { type CallTrace, type Trace, untraced } from "./trace.ts";
import {
  DEFAULT_ESCALATION_POLL_INTERVAL,
  DEFAULT_ESCALATION_TIMEOUT,
  type EditedApproval,
  type EscalationVerdict,
  type Rejection,
} from "./wait-escalation.ts";
import { runWatched } from "./watched-run.ts";

/** Parts of a control plane that guarded functions use beside its calls. */
export interface GuardContext {
  readonly trace: Trace;
  /** Tells the developer, once, of something that is probably a mistake. */
  readonly warn: (message: string) => void;
}

/** Options with their defaults. */
type Settings<Args extends unknown[]> = AnyGuardOptions<Args> &
  OutcomeOptions<never> & {
    readonly agentId: string;
    readonly actionType: string;
    readonly toArguments: GuardOptions<Args>["toArguments"];
    readonly [ASKS_ONLY]?: boolean | undefined;
  };

/** One call of a guarded function. */
interface GuardedCall<Args extends unknown[]> extends ReportingCall {
  /** `request_id` of the first attempt, from which the ids of calls with an approval are derived. */
  readonly requestId: string;
  readonly options: Settings<Args>;
  readonly trace: CallTrace;
  /** Parameters of the call, or of the edited call. */
  readonly args: Args;
  /** Content that the approval of an edited action covers. Undefined means the content of the parameters. */
  readonly content?: string | undefined;
}

/**
 * Wraps a function so that it MUST NOT run unless the control plane allows exactly this call, or no connection to it can be made
 * while `onUnreachable` is `allow`. Otherwise the call rejects: with `AgentBlockedError` for a block, a rejection, a timeout and an
 * unreachable control plane; with `ControlPlaneRequestError` for an invalid request. While the function runs, the call rejects
 * with `AgentStoppedError` as soon as the agent must stop, unless `abortWhenRevoked` is false.
 */
export function guard<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: (...args: Args) => Result,
  options: LooseGuardOptions<Args> & OutcomeOptions<Awaited<Result>>,
  context: GuardContext = UNTOLD,
): Guarded<Args, Result | PendingApproval> {
  const run: Stoppable<Args, Result> = function (this: unknown, _signal, ...args) {
    return fn.apply(this, args);
  };
  return guarded(controlPlane, run, settingsFrom(controlPlane, options, fn.length), context);
}

/**
 * Like `guard`, for a function that can stop early. Its first argument is a signal, which aborts with the error of the call, and
 * with the caller's own signal. The guarded function takes the other arguments.
 */
export function guardWithSignal<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: Stoppable<Args, Result>,
  options: LooseGuardOptions<Args> & OutcomeOptions<Awaited<Result>>,
  context: GuardContext = UNTOLD,
): Guarded<Args, Result | PendingApproval> {
  return guarded(controlPlane, fn, settingsFrom(controlPlane, options, fn.length - 1), context);
}

const UNTOLD: GuardContext = { trace: untraced, warn: () => undefined };

/** Adds the defaults to options. Throws a `TypeError` that names the option that is missing. `parameters` counts those of the function. */
function settingsFrom<Args extends unknown[]>(
  controlPlane: ControlPlane,
  options: LooseGuardOptions<Args> & OutcomeOptions<never>,
  parameters: number,
): Settings<Args> {
  const { agentId = controlPlane.agentId, actionType = options.tool, toArguments = ownArguments } = options;
  if (agentId === undefined)
    throw new TypeError("`agentId` is missing; give it here, or to the control plane for every call");
  if (actionType === undefined)
    throw new TypeError("`actionType` is missing, and so is `tool`, whose name it is by default");
  if (toArguments === ownArguments && parameters > 1) throw new TypeError(UNNAMED_ARGUMENTS);
  if (options.acceptEdits === true && typeof options.fromArguments !== "function")
    throw new TypeError("`acceptEdits` needs `fromArguments`, which turns edited arguments into parameters");
  return { ...options, agentId, actionType, toArguments };
}

const UNNAMED_ARGUMENTS = "`toArguments` is missing: it returns the arguments that rules evaluate, by their names";

/** Returns the arguments of a call without `toArguments`: the members of its only parameter. */
function ownArguments(...args: readonly unknown[]): Readonly<Record<string, unknown>> {
  const [only = {}, ...others] = args;
  const isObject = typeof only === "object" && only !== null && !Array.isArray(only);
  if (!isObject || others.length > 0) throw new TypeError(UNNAMED_ARGUMENTS);
  return only as Readonly<Record<string, unknown>>;
}

function guarded<Args extends unknown[], Result>(
  controlPlane: ControlPlane,
  fn: Stoppable<Args, Result>,
  options: Settings<Args>,
  context: GuardContext,
): Guarded<Args, Result | PendingApproval> {
  async function call(this: unknown, ...args: Args): Promise<Awaited<Result> | PendingApproval> {
    // Read at once, because the caller may change its arguments right after the call.
    const action = actionFrom({ options, args });
    return await context.trace(action, async (steps) => {
      const asked: GuardedCall<Args> = {
        requestId: options.requestId ?? createRequestId(),
        // Of this call alone: another call with the same `requestId` must not hold the same claim.
        claimId: createRequestId(),
        controlPlane,
        options,
        warn: context.warn,
        trace: steps,
        args,
      };
      const permitted = await permit(asked, action);
      if (permitted instanceof PendingApproval) return permitted;
      return await carryOut(asked, permitted, (signal) => fn.call(this, signal, ...permitted.args));
    });
  }
  const withOptions = (given: GuardCallOptions) => guarded(controlPlane, fn, withCallOptions(options, given), context);
  return Object.assign(call, { with: withOptions });
}

/** Returns options with the options of a single call merged in. Either signal cancels the call. */
function withCallOptions<Options extends GuardCallOptions>(options: Options, given: GuardCallOptions): Options {
  const defined = Object.entries(given).filter(([, value]) => value !== undefined);
  const signals = [options.signal, given.signal].filter((signal) => signal !== undefined);
  return {
    ...options,
    ...Object.fromEntries(defined),
    ...(signals.length > 0 && { signal: signals.length > 1 ? AbortSignal.any(signals) : signals[0] }),
  };
}

/** A call that may run. */
interface Permitted<Args extends unknown[]> {
  readonly args: Args;
  /** The decision whose action the call has claimed; undefined for a call that runs unchecked, or only asks. */
  readonly claimed: InterceptResult | undefined;
}

/** Resolves with the parameters with which the function may run, or with the approval if the call does not wait for it. */
async function permit<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
): Promise<PendingApproval | Permitted<Args>> {
  const claimId = call.options[ASKS_ONLY] === true ? undefined : call.claimId;
  const result = await decideOrRun(call, { ...action, requestId: call.requestId, claimId });
  if (result === undefined) return { args: call.args, claimed: undefined };
  if (result.decision !== "escalate") return await permitAllowed(call, action, result);
  if (call.options.waitOnEscalate === false) return new PendingApproval(result, askedIn(result, action), action);
  return await awaitApproval(call, action, result);
}

/** Claims an allowed action for its call, which may run then. */
async function permitAllowed<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  result: InterceptResult,
): Promise<Permitted<Args>> {
  assertAllowed(result, action);
  const claimed = call.options[ASKS_ONLY] === true ? undefined : await claimAllowed(call, result);
  return await orGiveUp(call, claimed ?? result, () => {
    assertUnchanged(call, action, result);
    return { args: call.args, claimed };
  });
}

/** Returns the id of a decision's escalation. */
function askedIn(result: InterceptResult, action: InterceptAction): string {
  if (result.escalationId !== null) return result.escalationId;
  throw refusal(action, `${named(action)} escalated without an id`, "escalate", result);
}

/**
 * Waits until an approval admits this call, and claims its action. Returns the call as approved: with other parameters if a person edited
 * the arguments and the options accept edits.
 */
async function awaitApproval<Args extends unknown[]>(
  asked: GuardedCall<Args>,
  askedAction: InterceptAction,
  escalated: InterceptResult,
): Promise<Permitted<Args>> {
  const { escalationTimeout = DEFAULT_ESCALATION_TIMEOUT } = asked.options;
  const endsAt = performance.now() + escalationTimeout * 1000;
  let [call, action] = [asked, askedAction];
  for (let waiting = escalated; ; ) {
    const escalationId = askedIn(waiting, action);
    let rejection: Rejection | undefined;
    const onRejected = (told: Rejection): void => {
      rejection = told;
    };
    const verdict = await awaitVerdict(call, { escalationId, escalated: waiting, endsAt, onRejected });
    if (verdict === "rejected") throw rejected(action, { ...waiting, escalationId }, rejection);
    const isEdited = verdict !== "approved";
    if (isEdited) {
      call = editedCall(call, verdict, waiting);
      action = actionFrom(call);
    }
    const approvedId = isEdited ? verdict.escalationId : escalationId;
    // The arguments are read again: the approval has to cover what would run now, not what was sent for approval.
    const requestId = presentationId(asked.requestId, approvedId ?? escalationId);
    const approved = { ...actionFrom(call), ...(approvedId !== null && { escalationId: approvedId }), requestId };
    const result = await decide(call, approved);
    const waitsOn = approvedId === null && result.decision === "escalate";
    if (!(waitsOn || isSpent(result))) return await permitAllowed(call, action, result);
    // Another call for the same action was admitted, or the edited action now needs an approval, so this call waits for the next approval.
    waiting = result;
  }
}

function rejected(
  action: InterceptAction,
  asked: InterceptResult,
  rejection: Rejection | undefined,
): AgentBlockedError {
  const forModel = rejectedText(action.actionType, rejection);
  const details = { ...asked, note: rejection?.note ?? null, retryAfter: null, forModel };
  return new AgentBlockedError(`${named(action)} ${howRejected(asked, rejection)}`, "escalate", details);
}

function howRejected({ escalationId }: InterceptResult, rejection: Rejection | undefined): string {
  const { note = null, resolvedBy = null, editedArguments = null } = rejection ?? {};
  if (resolvedBy === "expiry") return `was not approved: escalation \`${escalationId}\` expired`;
  if (resolvedBy === "withdrawal") return `was not approved: escalation \`${escalationId}\` was withdrawn`;
  const instead = editedArguments === null ? "" : ", and edited by a person, which the call does not accept";
  const said = note === null || note === "" ? "" : `. The person said: ${note}`;
  return `was rejected: escalation \`${escalationId}\`${instead}${said}`;
}

/** Creates the error of a refused call; the message gives the reason. */
function refusal(
  { actionType }: InterceptAction,
  message: string,
  decision: "block" | "escalate",
  details: DecisionDetails,
): AgentBlockedError {
  return new AgentBlockedError(message, decision, { ...details, forModel: refusedText(actionType, message) });
}

/** Returns a call with the parameters of a person's edit. Throws unless these parameters give exactly the approved arguments. */
function editedCall<Args extends unknown[]>(
  call: GuardedCall<Args>,
  edit: EditedApproval,
  escalated: InterceptResult,
): GuardedCall<Args> {
  const { options, args } = call;
  if (options.acceptEdits !== true)
    throw new AgentBlockedError("the call does not accept edits", "escalate", escalated);
  const approved = options.fromArguments(structuredClone(edit.arguments), ...args);
  const edited = { ...call, args: approved, content: edit.actionContent ?? undefined };
  if (isSameJson(actionFrom(edited).metadata?.arguments, edit.arguments)) return edited;
  const text = `\`fromArguments\` returned other arguments for \`${options.actionType}\` than were approved`;
  throw refusal(actionFrom(call), text, "escalate", escalated);
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

/** Reason codes for an approval that covers the action but can no longer be used. */
const SPENT_CODES: readonly string[] = ["APPROVAL_USED", "APPROVAL_EXPIRED"];

const isSpent = ({ decision, reasons }: InterceptResult): boolean =>
  decision === "escalate" && reasons.some(({ code }) => SPENT_CODES.includes(code));

/** Wait of a call for a verdict. */
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
    if (signal?.aborted) withdraw(controlPlane, escalationId);
    if (!(error instanceof EscalationTimeoutError)) throw error;
    const forModel = unansweredText(options.actionType, escalated.reasons);
    throw new EscalationTimeoutError(escalationId, escalationTimeout, { ...escalated, forModel, cause: error.cause });
  }
}

/** Withdraws a request for approval for which nobody waits any more. If that fails, the request ends when its time is up. */
function withdraw(controlPlane: ControlPlane, escalationId: string): void {
  controlPlane.withdrawEscalation(escalationId).catch(() => undefined);
}

/** Returns the decision on an action; undefined if the call may run unchecked: nothing was sent, and the options allow it then. */
async function decideOrRun<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
): Promise<InterceptResult | undefined> {
  const { onUnchecked, onUnreachable = "block" } = call.options;
  // INVARIANT: only an intercept that sent nothing lets a call pass unchecked; an exception of `onDecision` never does.
  const asked = await intercept(call, action).catch(unansweredOrThrow);
  if ("decision" in asked || asked.reached || onUnreachable !== "allow" || mayBeClaimed(call))
    return await heed(call, action, asked);
  await onUnchecked?.(asked, action);
  call.trace.ranUnchecked();
  return undefined;
}

/** Tests for a call whose action an earlier call may have claimed: it needs an answer. */
const mayBeClaimed = <Args extends unknown[]>({ options }: GuardedCall<Args>): boolean =>
  options[ASKS_ONLY] !== true && (options.requestId !== undefined || options.escalationId !== undefined);

/** Returns the decision on an action of which an earlier decision is known, so that it never runs unchecked. */
async function decide<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
): Promise<InterceptResult> {
  return await heed(call, action, await intercept(call, action).catch(unansweredOrThrow));
}

/** Tells the hook of a decision and returns it; throws if there is none. */
async function heed<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  asked: InterceptResult | ControlPlaneRequestError,
): Promise<InterceptResult> {
  if (!("decision" in asked)) {
    const forModel = uncheckedText(action.actionType);
    throw new AgentBlockedError(`the action could not be decided: ${asked.message}`, null, { forModel, cause: asked });
  }
  call.trace.decided(asked);
  return await orGiveUp(call, asked, async () => {
    warnOfTool(call, asked);
    await call.options.onDecision?.(asked, action);
    return asked;
  });
}

/** Runs a step of a call. If it fails, the call does not run, and gives up an action that was allowed. */
async function orGiveUp<Args extends unknown[], Value>(
  call: GuardedCall<Args>,
  result: InterceptResult,
  step: () => Value | Promise<Value>,
): Promise<Value> {
  try {
    return await step();
  } catch (error) {
    giveUp(call, result);
    throw error;
  }
}

/** Warns of a tool that is not registered: a mistyped name would keep rules on its arguments from calls, unnoticed. */
function warnOfTool<Args extends unknown[]>({ options, warn }: GuardedCall<Args>, { tool }: InterceptResult): void {
  if (options.tool === undefined || tool !== null) return;
  warn(
    `tool \`${options.tool}\` is not registered at the control plane, so no rule on a tool's arguments covers its calls; register it, or name one that is`,
  );
}

/**
 * Requests the decision on an action. When the call is cancelled meanwhile, it rejects at once, and withdraws the request for
 * approval if the decision in flight escalates, or gives the action up if it is allowed.
 */
async function intercept<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
): Promise<InterceptResult> {
  const { controlPlane, options } = call;
  const { signal, timeoutMs } = options;
  return await unlessCancelled(
    signal,
    (leaving) => controlPlane.intercept(action, { signal: leaving, timeoutMs }),
    (late) => {
      if (late.escalationId !== null) withdraw(controlPlane, late.escalationId);
      giveUp(call, late);
    },
  );
}

/** Returns the fault if the control plane did not answer; throws any other fault. */
function unansweredOrThrow(error: unknown): ControlPlaneRequestError {
  if (error instanceof ControlPlaneRequestError && isUnreachable(error)) return error;
  throw error;
}

function actionFrom<Args extends unknown[]>({
  options,
  args,
  content,
}: Pick<GuardedCall<Args>, "options" | "args" | "content">): InterceptAction {
  const { agentId, actionType, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId, report } = options;
  // Copied, so that later changes to the arguments do not change the action that was sent.
  const values = JSON.parse(JSON.stringify(options.toArguments(...args))) as Record<string, unknown>;
  return {
    agentId,
    actionType,
    tool,
    sessionId,
    onBehalfOf,
    grantId,
    intentContractId,
    escalationId,
    actionContent: content ?? options.toContent?.(...args) ?? JSON.stringify(values),
    metadata: { ...options.metadata, arguments: values },
    ...(report === false && { report }),
  };
}

function assertAllowed(result: InterceptResult, action: InterceptAction): void {
  if (result.decision === "allow") return;
  const why = result.reasons.map(({ message }) => message).join("; ");
  const isBlocked = result.decision === "block";
  const verb = isBlocked ? "is blocked" : "needs an approval of its own";
  const message = `${named(action)} ${verb}${why === "" ? "" : `: ${why}`}`;
  if (!isBlocked) throw refusal(action, message, result.decision, result);
  const forModel = blockedText(action.actionType, result.reasons);
  throw new AgentBlockedError(message, result.decision, { ...result, forModel });
}

/** Throws if the caller changed the arguments between request and decision, because the changed call was not decided. */
function assertUnchanged<Args extends unknown[]>(
  call: GuardedCall<Args>,
  action: InterceptAction,
  result: InterceptResult,
): void {
  call.options.signal?.throwIfAborted();
  if (JSON.stringify(actionFrom(call)) === JSON.stringify(action)) return;
  const text = `the arguments of ${named(action)} changed during the decision`;
  const { decisionId, escalationId } = result;
  throw refusal(action, text, "block", { decisionId, escalationId });
}

function named({ actionType }: InterceptAction): string {
  return `\`${actionType}\``;
}

/** How a function ended, with its report, which never rejects. */
type Ended<Result> = ({ readonly result: Awaited<Result> } | { readonly error: unknown }) & {
  readonly reported: Promise<void>;
};

/**
 * Runs the function of a call and reports how it ended. The result waits for the report, so that the next decision finds what this action
 * came to, unless the call is cancelled. A function that goes on after its agent was stopped is reported when it ends.
 */
async function carryOut<Args extends unknown[], Result>(
  call: GuardedCall<Args>,
  { claimed }: Permitted<Args>,
  fn: (signal: AbortSignal) => Result,
): Promise<Awaited<Result>> {
  const { controlPlane, options } = call;
  const { agentId, abortWhenRevoked = true, signal: caller } = options;
  let isStarted = false;
  const run = async (signal: AbortSignal): Promise<Ended<Result>> => {
    isStarted = true;
    const report = (send: (decisionId: string) => Promise<void>): Promise<void> =>
      claimed === undefined ? Promise.resolve() : send(claimed.decisionId);
    let result: Awaited<Result>;
    try {
      result = await fn(signal);
    } catch (error) {
      return { error, reported: report((decisionId) => reportThrown(call, decisionId, error, signal)) };
    }
    return { result, reported: report((decisionId) => reportReturned(call, decisionId, result)) };
  };
  let ended: Ended<Result>;
  try {
    caller?.throwIfAborted();
    ended = abortWhenRevoked
      ? await runWatched(controlPlane.watchAgent(agentId), options, run)
      : await run(caller ?? new AbortController().signal);
  } catch (error) {
    if (!isStarted && claimed !== undefined) giveUp(call, claimed);
    throw error;
  }
  const withheld = observed(call, claimed?.decisionId, ended);
  // It is awaited below, after the report.
  withheld.catch(() => undefined);
  await (caller === undefined ? ended.reported : unlessAborted(ended.reported, caller).catch(() => undefined));
  await withheld;
  if ("error" in ended) throw ended.error;
  return ended.result;
}

/** Has the session of a call observe what came of it. Rejects with a `ResultWithheldError` if that fails. */
async function observed<Args extends unknown[]>(
  { controlPlane, options }: GuardedCall<Args>,
  decisionId: string | undefined,
  ended: Ended<unknown>,
): Promise<void> {
  const { observe, sessionId, actionType, timeoutMs } = options;
  if (observe !== true || sessionId === undefined || decisionId === undefined) return;
  try {
    const tell = (observation: Observation) => controlPlane.observe(observation, { timeoutMs });
    await tellResult(tell, { sessionId, decisionId }, ended);
  } catch (error) {
    throw new ResultWithheldError(actionType, decisionId, sessionId, error);
  }
}
