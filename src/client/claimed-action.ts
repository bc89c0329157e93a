import { AgentBlockedError, AlreadyClaimedError } from "./blocked-error.ts";
import type { ControlPlane } from "./control-plane.ts";
import { unlessAborted } from "./deferred.ts";
import type { OutcomeOptions } from "./guard-options.ts";
import type { InterceptResult } from "./intercept-call.ts";
import { claimRefusedText, uncheckedText } from "./model-text.ts";
import type { ClaimResult, OutcomeReport } from "./outcome-calls.ts";
import { ControlPlaneRequestError, isUnreachable } from "./request-error.ts";
import { later } from "./timers.ts";

/** Parts of a guarded call that claim its action and report its outcome. */
export interface ReportingCall {
  readonly controlPlane: ControlPlane;
  readonly options: OutcomeOptions<never> & {
    readonly actionType: string;
    readonly signal?: AbortSignal | undefined;
    readonly timeoutMs?: number | undefined;
  };
  /** Id of the call's claim. */
  readonly claimId: string;
  readonly warn: (message: string) => void;
}

/** Milliseconds to wait for an answer after its call was cancelled, so that what it brought can be given back. */
const LATE_ANSWER_MS = 2_000;

/**
 * Makes a call to the control plane. When the guarded call is cancelled meanwhile, it rejects at once, and an answer that comes in time
 * is passed to `late`.
 */
export async function unlessCancelled<Answer>(
  signal: AbortSignal | undefined,
  send: (signal: AbortSignal | undefined) => Promise<Answer>,
  late: (answer: Answer) => void,
): Promise<Answer> {
  if (signal === undefined) return await send(undefined);
  signal.throwIfAborted();
  const leaving = new AbortController();
  const sent = send(leaving.signal);
  try {
    return await unlessAborted(sent, signal);
  } catch (error) {
    if (signal.aborted) {
      const cancel = later(LATE_ANSWER_MS, () => leaving.abort());
      sent.then(late, () => undefined).finally(cancel);
    }
    throw error;
  }
}

/**
 * Claims an allowed action, unless its intercept did. Resolves with the decision as claimed. Rejects if the claim does not hold or has no
 * answer: nothing runs then.
 */
export async function claimAllowed(call: ReportingCall, result: InterceptResult): Promise<InterceptResult> {
  if (result.claimed === true) return result;
  const { controlPlane, options, claimId } = call;
  const { signal, timeoutMs, report } = options;
  const claim = { decisionId: result.decisionId, claimId, report: report === false ? report : undefined };
  const asClaimed = ({ reportOutcome }: ClaimResult): InterceptResult => ({ ...result, claimed: true, reportOutcome });
  try {
    const answer = await unlessCancelled(
      signal,
      (leaving) => controlPlane.claim(claim, { signal: leaving, timeoutMs }),
      (late) => giveUp(call, asClaimed(late)),
    );
    return asClaimed(answer);
  } catch (error) {
    throw claimError(call, result, error);
  }
}

/** Converts the fault of a claim to the error of its call. */
function claimError({ options: { actionType } }: ReportingCall, result: InterceptResult, fault: unknown): unknown {
  if (!(fault instanceof ControlPlaneRequestError)) return fault;
  const { decisionId } = result;
  if (fault.reason === "ALREADY_CLAIMED") return new AlreadyClaimedError(actionType, decisionId, fault);
  if (fault.reason === "CLAIM_REFUSED") {
    const forModel = claimRefusedText(actionType, fault.message);
    return new AgentBlockedError(`\`${actionType}\` does not run: ${fault.message}`, "block", {
      decisionId,
      forModel,
      cause: fault,
    });
  }
  if (!isUnreachable(fault)) return fault;
  const message = `\`${actionType}\` does not run: its claim has no answer: ${fault.message}`;
  return new AgentBlockedError(message, null, { decisionId, forModel: uncheckedText(actionType), cause: fault });
}

/**
 * Reports an action that was allowed and does not run as `cancelled`, in the background. One that this call does not hold is claimed
 * before: another call may hold it, and run it.
 */
export function giveUp(call: ReportingCall, { decision, decisionId, claimed, reportOutcome }: InterceptResult): void {
  if (decision !== "allow" || !reportOutcome) return;
  const { controlPlane, options, claimId } = call;
  const { timeoutMs } = options;
  const held = claimed === true ? Promise.resolve() : controlPlane.claim({ decisionId, claimId }, { timeoutMs });
  const cancelled = () => sendReport(call, { decisionId, status: "cancelled", error: "did not run" });
  held.then(cancelled, () => undefined);
}

/** Reports that a function returned. Resolves when the report is delivered or given up; never rejects. */
export async function reportReturned(call: ReportingCall, decisionId: string, result: unknown): Promise<void> {
  const { isFailure, report } = call.options;
  if (report === false) return;
  const isFailed = checked(call, "isFailure", () => isFailure?.(result as never)) === true;
  if (isFailed) return await sendReport(call, { decisionId, status: "failed" });
  await sendReport(call, { decisionId, status: "succeeded", amount: amountOf(call, result) });
}

/**
 * Reports that a function threw. Resolves when the report is delivered or given up; never rejects. After a time-out nothing is reported:
 * nobody knows whether the action took effect, so that its outcome becomes `unknown`.
 */
export async function reportThrown(
  call: ReportingCall,
  decisionId: string,
  error: unknown,
  { aborted, reason }: AbortSignal,
): Promise<void> {
  if (call.options.report === false || isUnknownEnd(error) || (aborted && isUnknownEnd(reason))) return;
  const isCancelled = aborted || nameOf(error) === "AbortError";
  await sendReport(call, { decisionId, status: isCancelled ? "cancelled" : "failed", error: nameOf(error) });
}

/** Thrown by a function that cannot know how its action ends. */
export class UnknownEndError extends Error {
  override readonly name = "UnknownEndError";
}

/** Codes of Node and its libraries for what took too long. */
const TIMEOUT_CODE = /TIMEDOUT|TIMEOUT/;
/** Maximum number of causes of an error that are looked at. */
const MAX_CAUSES = 5;

/** Tests for an error after which the action may have taken effect: a time-out, also as the cause of another error. */
function isUnknownEnd(error: unknown): boolean {
  let cause = error;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth++) {
    const { code } = cause as { readonly code?: unknown };
    if (cause instanceof UnknownEndError || cause.name === "TimeoutError") return true;
    if (typeof code === "string" && TIMEOUT_CODE.test(code)) return true;
    cause = cause.cause;
  }
  return false;
}

/** Names of errors, as programs write them: nothing else of an error is reported, since messages may hold secrets and personal values. */
const ERROR_NAME = /^[A-Za-z_$][\w$.]{0,99}$/;

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  return ERROR_NAME.test(error.name) ? error.name : "Error";
}

/** Returns the amount that a result came to; undefined if the options give none that can be reported. */
function amountOf(call: ReportingCall, result: unknown): number | undefined {
  const { amount: amountFrom, actionType } = call.options;
  const amount = checked(call, "amount", () => amountFrom?.(result as never));
  if (amount === undefined || (Number.isFinite(amount) && amount >= 0)) return amount;
  tell(call, `\`amount\` of \`${actionType}\` returned \`${amount}\`, which is no amount; it was reported without one`);
  return undefined;
}

/** Calls a function of the options, whose fault changes neither the result nor the status. */
function checked<Value>(call: ReportingCall, name: string, run: () => Value): Value | undefined {
  try {
    return run();
  } catch (error) {
    tell(
      call,
      `\`${name}\` of \`${call.options.actionType}\` threw \`${nameOf(error)}\`, and was left out of the report`,
    );
    return undefined;
  }
}

/** Sends a report. One whose amount is refused is sent without it. Tells of a report that cannot be delivered; never rejects. */
async function sendReport(call: ReportingCall, report: OutcomeReport): Promise<void> {
  const { controlPlane, options } = call;
  const { actionType, timeoutMs } = options;
  try {
    await controlPlane.reportOutcome(report, { timeoutMs });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const { decisionId, status, amount } = report;
    if (amount !== undefined && error instanceof ControlPlaneRequestError && error.code === "INVALID_ARGUMENT") {
      tell(call, `the amount \`${amount}\` of \`${actionType}\` (decision \`${decisionId}\`) was refused: ${why}`);
      return await sendReport(call, { decisionId, status });
    }
    tell(call, `the outcome \`${status}\` of \`${actionType}\` (decision \`${decisionId}\`) is not reported: ${why}`);
  }
}

/** Warns of a report. A fault of the hook does not change how the call ends. */
function tell({ warn }: ReportingCall, message: string): void {
  try {
    warn(message);
  } catch {
    // The developer's hook is all there is to tell.
  }
}
