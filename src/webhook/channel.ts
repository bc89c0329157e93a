import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import type { WebhookEvent } from "./event-queue.ts";
import { type Attempt, type AttemptResult, messageFrom } from "./post-attempt.ts";
import type { TargetAnswer } from "./target.ts";

/** Bounds of one attempt to tell a person. */
export interface ChannelRequest {
  /** `msg_…`, the same at every attempt. */
  readonly id: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Result of one attempt: told, or why not; the event does not concern the person; or the person wants to rest until a time. */
export type ChannelOutcome =
  | {
      readonly kind: "tried";
      /** Error in one line without personal values; null if the person was told. */
      readonly error: string | null;
      /** Answer of the receiver, for its status and `Retry-After`. */
      readonly answer: TargetAnswer;
    }
  | { readonly kind: "skipped" }
  | { readonly kind: "held"; readonly untilMs: number };

/** Tells people of events through channels other than webhooks. */
export interface ChannelSender {
  /** Makes one attempt. MUST reject only for faults of this service, such as of its database. */
  send(channel: StoredWebhook, event: WebhookEvent, request: ChannelRequest): Promise<ChannelOutcome>;
}

/** Number of an attempt and its bounds. */
interface ChannelAttempt extends Omit<ChannelRequest, "id"> {
  readonly attempt: number;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
}

/** Makes one attempt and measures it. */
export async function attemptByChannel(
  sender: ChannelSender,
  channel: StoredWebhook,
  event: WebhookEvent,
  { attempt: number, clock, timeoutMs, signal }: ChannelAttempt,
): Promise<AttemptResult | Exclude<ChannelOutcome, { readonly kind: "tried" }>> {
  const { id } = messageFrom(channel, event);
  const atMs = clock.now();
  const startedAt = performance.now();
  const outcome = await sender.send(channel, event, { id, timeoutMs, signal });
  if (outcome.kind !== "tried") return outcome;
  const { error, answer } = outcome;
  const attempt: Attempt = {
    messageId: id,
    event: event.name,
    seq: event.seq,
    attempt: number,
    atMs,
    delivered: error === null,
    statusCode: answer.kind === "answer" ? answer.status : null,
    error,
    durationMs: Math.round(performance.now() - startedAt),
  };
  return { attempt, answer };
}
