import { createHash, createHmac } from "node:crypto";
import { Webhook as Signer } from "standardwebhooks";
import type { Encryptor } from "../store/encryptor.ts";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import type { StoredWebhook } from "../store/sql/change-webhook.ts";
import { type TracePlace, traceHeaderOf } from "../tracing/trace-context.ts";
import type { Tracing } from "../tracing/tracing.ts";
import type { EventData, WebhookEvent } from "./event-queue.ts";
import { secretsAt } from "./secrets.ts";
import type { TargetAnswer, Targets } from "./target.ts";

/** A message to a receiver. Every attempt sends the same message. */
interface WebhookMessage {
  /** `msg_…`, by which receivers recognise duplicates. */
  readonly id: string;
  readonly body: string;
}

/** Record of one attempt to deliver a message. */
export interface Attempt {
  readonly messageId: string;
  /** `agent.revoked`, …, or `webhook.test`. */
  readonly event: string;
  /** Log index of the entry; null for a test. */
  readonly seq: number | null;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  readonly atMs: number;
  /** True if the receiver answered with a 2xx status. */
  readonly delivered: boolean;
  /** Status of the response; null without a response. */
  readonly statusCode: number | null;
  /** Error in one line; null if delivered. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** A message to post, with the members of the attempt that are already known. */
interface AttemptRequest extends WebhookMessage, Pick<Attempt, "event" | "seq" | "attempt"> {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Place in the trace of what the message tells; undefined for none. */
  readonly trace: TracePlace | undefined;
}

/** Dependencies of `postAttempt`. */
export interface AttemptContext {
  readonly targets: Targets;
  readonly encryptor: Encryptor;
  /** Epoch milliseconds. */
  readonly clock: { now(): number };
  /** Records every attempt as a span. Default: nothing is recorded. */
  readonly tracing?: Tracing | undefined;
}

/** An attempt and the receiver's response. */
export interface AttemptResult {
  readonly attempt: Attempt;
  readonly answer: TargetAnswer;
}

const ID_BYTES = 16;
const USER_AGENT = "Agent-Control-Plane/1";

function bodyFrom(type: string, timestamp: string, data: EventData): string {
  return JSON.stringify({ type, timestamp, data });
}

/** Creates the message of an event. Its id depends only on workspace, webhook and log index. */
export function messageFrom(
  { workspaceId, webhookId }: Pick<StoredWebhook, "workspaceId" | "webhookId">,
  event: WebhookEvent,
): WebhookMessage {
  const identity = JSON.stringify([workspaceId, webhookId, event.seq]);
  const digest = createHash("sha256").update(identity).digest();
  const id = `msg_${base32FromBytes(digest.subarray(0, ID_BYTES))}`;
  return { id, body: bodyFrom(event.name, event.at, event.data) };
}

/** Creates the message of a test, with a unique id. */
export function testMessage({ workspaceId, webhookId }: StoredWebhook, nowMs: number): WebhookMessage {
  const data = { workspace_id: workspaceId, webhook_id: webhookId };
  const id = `msg_${base32FromBytes(createUuidV7(nowMs))}`;
  return { id, body: bodyFrom("webhook.test", new Date(nowMs).toISOString(), data) };
}

/**
 * Creates the headers of a request: the headers of Standard Webhooks with a signature by each valid secret, and
 * `X-Service-Signature`, which has room for one signature, by the newest secret.
 */
function headersFrom(
  secrets: readonly [newest: string, ...older: string[]],
  { id, body }: WebhookMessage,
  nowMs: number,
): Record<string, string> {
  const at = new Date(nowMs);
  const signatures = secrets.map((secret) => new Signer(secret).sign(id, at, body));
  return {
    "Content-Type": "application/json",
    "User-Agent": USER_AGENT,
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(nowMs / 1000)),
    "webhook-signature": signatures.join(" "),
    "X-Service-Signature": `sha256=${createHmac("sha256", secrets[0]).update(body).digest("hex")}`,
  };
}

function errorFrom(answer: TargetAnswer): string | null {
  if (answer.kind === "fault") return answer.error;
  const { status } = answer;
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400)
    return `the receiver redirected with status ${status}, and redirects are not followed`;
  return `the receiver answered with status ${status}`;
}

/** Posts a signed message. A secret that cannot be decrypted is a fault: nothing is sent without a signature. */
async function signAndPost(
  { targets, encryptor }: AttemptContext,
  webhook: StoredWebhook,
  { id, body, timeoutMs, signal, trace }: AttemptRequest,
  nowMs: number,
): Promise<TargetAnswer> {
  let headers: Record<string, string>;
  try {
    headers = { ...headersFrom(secretsAt(encryptor, webhook, nowMs), { id, body }, nowMs), ...traceHeaderOf(trace) };
  } catch (error) {
    const cure = "or rotate the webhook's secret";
    return { kind: "fault", error: `the secret cannot be read: ${(error as Error).message}, ${cure}` };
  }
  return targets.post({ url: webhook.url, headers, body, timeoutMs, signal });
}

/** Signs a message and posts it once. MUST NOT reject. */
export async function postAttempt(
  context: AttemptContext,
  webhook: StoredWebhook,
  request: AttemptRequest,
): Promise<AttemptResult> {
  const { tracing } = context;
  if (tracing === undefined) return attemptOnce(context, webhook, request);
  // The URL may hold a secret: only its host is named.
  const attributes = { "http.request.method": "POST", "server.address": new URL(webhook.url).hostname };
  const span = tracing.start("POST", { kind: "client", parent: request.trace, attributes });
  const trace = span.isSampled ? span : request.trace;
  const result = await attemptOnce(context, webhook, { ...request, trace });
  const { statusCode, delivered } = result.attempt;
  span.set({ "http.response.status_code": statusCode ?? undefined });
  span.end(delivered ? undefined : statusCode === null ? "_OTHER" : String(statusCode));
  return result;
}

async function attemptOnce(
  context: AttemptContext,
  webhook: StoredWebhook,
  request: AttemptRequest,
): Promise<AttemptResult> {
  const { id, event, seq, attempt } = request;
  const atMs = context.clock.now();
  const startedAt = performance.now();
  const answer = await signAndPost(context, webhook, request, atMs);
  const durationMs = Math.round(performance.now() - startedAt);
  const error = errorFrom(answer);
  const statusCode = answer.kind === "answer" ? answer.status : null;
  const delivered = error === null;
  return { attempt: { messageId: id, event, seq, attempt, atMs, delivered, statusCode, error, durationMs }, answer };
}

/** Returns the first eleven parameters of the statements that record an attempt. */
export function attemptValues({ workspaceId, webhookId }: StoredWebhook, made: Attempt): unknown[] {
  const { messageId, event, seq, attempt, atMs, delivered, statusCode, error, durationMs } = made;
  const outcome = [delivered, statusCode, error, durationMs];
  return [workspaceId, webhookId, messageId, event, seq, attempt, atMs, ...outcome];
}
