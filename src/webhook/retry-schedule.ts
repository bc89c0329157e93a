import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import type { AttemptResult } from "./post-attempt.ts";
import type { TargetAnswer } from "./target.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** A day in milliseconds. */
export const DAY_MS = 24 * HOUR_MS;

/** Durations of the delivery, in milliseconds. */
export interface DeliveryTiming {
  /** Delays after consecutive failed attempts; the last delay repeats. */
  readonly scheduleMs: readonly number[];
  /** Time of failures after which a webhook is deactivated. */
  readonly giveUpMs: number;
  /** Timeout of an attempt. */
  readonly attemptMs: number;
  /** Interval between renewals of the leases, and between searches for webhooks without a lease. */
  readonly tickMs: number;
  /** Duration of a lease. After a process was killed, its webhooks wait at most this long and a tick. */
  readonly leaseMs: number;
  /** Time for requests in flight to finish when the delivery closes. */
  readonly drainMs: number;
}

/** Schedule recommended by Standard Webhooks. A lease survives three lost renewals. */
export const DEFAULT_TIMING: DeliveryTiming = {
  scheduleMs: [
    5 * SECOND_MS,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    5 * HOUR_MS,
    10 * HOUR_MS,
    14 * HOUR_MS,
    20 * HOUR_MS,
    DAY_MS,
  ],
  giveUpMs: 30 * DAY_MS,
  attemptMs: 15 * SECOND_MS,
  tickMs: 3 * SECOND_MS,
  leaseMs: 12 * SECOND_MS,
  drainMs: 3 * SECOND_MS,
};

/** Random share of a delay (jitter), so that receivers that failed together are not retried together. */
const JITTER = 0.2;
const MAX_RETRY_AFTER_MS = DAY_MS;
const GONE = 410;

/** Converts `Retry-After`, in seconds or as a date, to milliseconds: at most a day, and 0 if absent or malformed. */
export function retryAfterMs(text: string | undefined, nowMs: number): number {
  if (text === undefined) return 0;
  const asked = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - nowMs;
  return Number.isNaN(asked) ? 0 : Math.min(Math.max(asked, 0), MAX_RETRY_AFTER_MS);
}

/**
 * Returns the milliseconds until the next attempt after `failures` consecutive failures: at least 1, and at least the receiver's
 * `Retry-After`. `random` returns a number from 0 to 1.
 */
export function delayAfter(
  { scheduleMs }: Pick<DeliveryTiming, "scheduleMs">,
  failures: number,
  answer: TargetAnswer,
  nowMs: number,
  random: () => number,
): number {
  const scheduled = scheduleMs[Math.min(failures, scheduleMs.length) - 1] ?? DAY_MS;
  const jittered = Math.round(scheduled * (1 - JITTER + 2 * JITTER * random()));
  return Math.max(jittered, answer.kind === "answer" ? retryAfterMs(answer.retryAfter, nowMs) : 0);
}

/** State of a webhook after an attempt. */
export interface NextState {
  readonly nextSeq: number;
  readonly failures: number;
  readonly failingSinceMs: number | null;
  readonly nextAttemptAtMs: number | null;
  /** False if the attempt deactivates the webhook. */
  readonly isActive: boolean;
}

/** Inputs for the next state. */
interface NextStateContext {
  readonly timing: DeliveryTiming;
  /** Epoch milliseconds at the end of the attempt. */
  readonly nowMs: number;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
}

/** Returns the webhook's state after an attempt to deliver the event at `seq`. A response of 410 deactivates the webhook. */
export function stateAfter(
  webhook: Pick<StoredWebhook, "failures" | "failingSinceMs">,
  seq: number,
  { attempt, answer }: AttemptResult,
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
