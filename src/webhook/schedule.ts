import type { TargetAnswer } from "./pinned-post.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
/** A day in milliseconds. */
export const DAY_MS = 24 * HOUR_MS;

/** When deliveries are made. */
export interface DeliveryTiming {
  /** Milliseconds before each next attempt after a failed one; the last holds for all that follow. */
  readonly scheduleMs: readonly number[];
  /** Milliseconds after which a webhook whose attempts all failed is deactivated. */
  readonly giveUpMs: number;
  /** Milliseconds for one attempt. */
  readonly attemptMs: number;
  /** Milliseconds between renewals of the leases, and between looks for webhooks that nobody delivers. */
  readonly tickMs: number;
  /** Milliseconds that a lease lasts: how long the webhooks of a killed process wait at most, beside a tick. */
  readonly leaseMs: number;
  /** Milliseconds that closing gives to requests under way. */
  readonly drainMs: number;
}

/** The schedule is that of the Standard Webhooks specification. Leases outlive three lost renewals. */
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

/** Share by which a delay is shorter or longer, so that receivers that failed together are not tried together. */
const JITTER = 0.2;
/** Longest wait that a receiver may ask for. */
const MAX_RETRY_AFTER_MS = DAY_MS;

/** The milliseconds that `Retry-After` asks for, as seconds or as a date; 0 when it asks for nothing that is understood. */
export function retryAfterMs(text: string | undefined, nowMs: number): number {
  if (text === undefined) return 0;
  const asked = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) * SECOND_MS : Date.parse(text) - nowMs;
  return Number.isNaN(asked) ? 0 : Math.min(Math.max(asked, 0), MAX_RETRY_AFTER_MS);
}

/**
 * Milliseconds to the next attempt after `failures` failed ones in a row, at least 1. Never sooner than the receiver asked
 * for. `random` gives a number from 0 to 1.
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
