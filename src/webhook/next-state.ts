import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import type { MadeAttempt } from "./attempt.ts";
import { type DeliveryTiming, delayAfter } from "./schedule.ts";

/** What the row of a webhook says after an attempt. */
export interface NextState {
  readonly nextSeq: number;
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly nextAttemptAtMs: number | null;
  /** False: the attempt deactivates the webhook. */
  readonly isActive: boolean;
}

/** When an attempt ended, and what decides when the next one is due. */
export interface NextStateContext {
  readonly timing: DeliveryTiming;
  /** Epoch milliseconds. */
  readonly nowMs: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

/** Status by which a receiver says that it is gone for good. */
const GONE = 410;

/** The state after an attempt to deliver the event at `seq`. */
export function stateAfter(
  webhook: Pick<StoredWebhook, "failures" | "failingSinceMs">,
  seq: number,
  { attempt, answer }: MadeAttempt,
  { timing, nowMs, random }: NextStateContext,
): NextState {
  if (attempt.delivered) {
    return { nextSeq: seq + 1, failures: 0, failingSinceMs: null, nextAttemptAtMs: null, isActive: true };
  }
  const failures = webhook.failures + 1;
  const failingSinceMs = webhook.failingSinceMs ?? attempt.atMs;
  const isActive = attempt.statusCode !== GONE && nowMs - failingSinceMs < timing.giveUpMs;
  const nextAttemptAtMs = isActive ? nowMs + delayAfter(timing, failures, answer, nowMs, random) : null;
  return { nextSeq: seq, failures, failingSinceMs, nextAttemptAtMs, isActive };
}
