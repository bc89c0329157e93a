import { retryText } from "../retry/retry-after.ts";
import { type InterceptReason, retryAfterFrom } from "./intercept-call.ts";
import type { Rejection } from "./wait-escalation.ts";

/*
 * Sentences that tell a language model why its tool call did not run and what it may do instead. They contain no ids, which mean
 * nothing to a model, and no causes that a model cannot act on.
 */

const notCarriedOut = (actionType: string, why: string): string =>
  `The action "${actionType}" was not carried out: ${why}`;

const UNCHANGED = "Do not try it again unchanged.";

/** Text about a block. Where limits alone refused the action, it says when it may be tried again. */
export function blockedText(actionType: string, reasons: readonly InterceptReason[], nowMs = Date.now()): string {
  const why = reasons.map(({ message }) => sentence(message));
  const wouldPass = reasons.flatMap((each) => (each.wouldPass === null ? [] : [sentence(each.wouldPass)]));
  const retryAfter = retryAfterFrom(reasons);
  const then = retryAfter === null ? UNCHANGED : retryText(retryAfter.getTime(), nowMs);
  return [notCarriedOut(actionType, "it is not permitted."), ...why, ...new Set(wouldPass), then].join(" ");
}

/** Text about a rejection, with the person's own words. */
export function rejectedText(actionType: string, rejection: Rejection | undefined): string {
  const { note = null, resolvedBy = null, editedArguments = null } = rejection ?? {};
  if (resolvedBy === "expiry") return unansweredText(actionType);
  if (resolvedBy === "withdrawal") return notCarriedOut(actionType, "the request for its approval was withdrawn.");
  const instead =
    editedArguments === null ? [] : [`They would approve it with these arguments: ${JSON.stringify(editedArguments)}.`];
  const words = note === null || note === "" ? [] : [`They said: "${note}".`];
  return [notCarriedOut(actionType, "a person rejected it."), ...words, ...instead, UNCHANGED].join(" ");
}

/** Text about an approval that did not come. `reasons` asked for it. */
export function unansweredText(
  actionType: string,
  reasons: readonly InterceptReason[] = [],
  nowMs = Date.now(),
): string {
  const why = notCarriedOut(actionType, "it needs a person's approval, and nobody answered in time.");
  const retryAfter = retryAfterFrom(reasons);
  return `${why} ${retryAfter === null ? "You may ask for it again later." : retryText(retryAfter.getTime(), nowMs)}`;
}

/** Text about a control plane that could not be asked. */
export function uncheckedText(actionType: string): string {
  return `${notCarriedOut(actionType, "it has to be checked first, and the check is not available at the moment.")} You may try again later.`;
}

/** Text about a call that was refused for another reason, with the message of its error. */
export function refusedText(actionType: string, message: string): string {
  return notCarriedOut(actionType, sentence(message));
}

/** Text about an action that another call runs or has run. */
export function alreadyRunText(actionType: string): string {
  return `${notCarriedOut(actionType, "an equal call with the same id runs it, or has run it already.")} Do not try it again.`;
}

/** Text about an allowed action that may no longer run, with the message of the control plane. */
export function claimRefusedText(actionType: string, message: string): string {
  return notCarriedOut(actionType, sentence(message.replace(/^decision `[^`]*`/, "it")));
}

/** Text about an agent that must stop. */
export function stoppedText(what: string): string {
  return `Stop now: ${what}. Take no further action.`;
}

const sentence = (text: string): string => {
  const trimmed = text.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
};
