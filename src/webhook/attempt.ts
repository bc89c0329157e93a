import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import { headersFor, type WebhookMessage } from "./message.ts";
import type { TargetAnswer } from "./pinned-post.ts";
import type { Targets } from "./target.ts";

/** One attempt to deliver a message. */
export interface Attempt {
  readonly messageId: string;
  /** `agent.revoked`, …, or `webhook.test`. */
  readonly event: string;
  /** Index of the entry; null for a test. */
  readonly seq: number | null;
  /** From 1. */
  readonly attempt: number;
  readonly atMs: number;
  /** Whether the receiver took it: a 2xx status. */
  readonly delivered: boolean;
  /** Null when there was no answer. */
  readonly statusCode: number | null;
  /** Null when it was delivered. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** What an attempt is about. */
export interface AttemptSubject extends WebhookMessage {
  readonly event: string;
  readonly seq: number | null;
  readonly attempt: number;
}

/** With what an attempt is made. */
export interface AttemptContext {
  readonly targets: Targets;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
}

/** An attempt with what the receiver answered. */
export interface MadeAttempt {
  readonly attempt: Attempt;
  readonly answer: TargetAnswer;
}

function errorOf(answer: TargetAnswer): string | null {
  if (answer.kind === "fault") return answer.error;
  const { status } = answer;
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400) return `the receiver redirected with status ${status}, which is not followed`;
  return `the receiver answered with status ${status}`;
}

/** Sends a message once. MUST NOT reject. */
export async function makeAttempt(
  { targets, clock }: AttemptContext,
  webhook: StoredWebhook,
  { id, body, ...subject }: AttemptSubject,
  limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<MadeAttempt> {
  const atMs = clock.now();
  const startedAt = performance.now();
  const answer = await targets.post({
    url: webhook.url,
    headers: headersFor(webhook, { id, body }, atMs),
    body,
    ...limits,
  });
  const durationMs = Math.round(performance.now() - startedAt);
  const error = errorOf(answer);
  const statusCode = answer.kind === "answer" ? answer.status : null;
  return {
    attempt: { messageId: id, ...subject, atMs, delivered: error === null, statusCode, error, durationMs },
    answer,
  };
}

/** The first eleven parameters of the statements that record an attempt. */
export function attemptValues({ workspaceId, webhookId }: StoredWebhook, attempt: Attempt): unknown[] {
  const { messageId, event, seq, atMs, delivered, statusCode, error, durationMs } = attempt;
  return [
    workspaceId,
    webhookId,
    messageId,
    event,
    seq,
    attempt.attempt,
    atMs,
    delivered,
    statusCode,
    error,
    durationMs,
  ];
}
