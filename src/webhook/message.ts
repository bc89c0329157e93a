import { createHash, createHmac, randomBytes } from "node:crypto";
import { Webhook as Signer } from "standardwebhooks";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import type { StoredWebhook } from "../store/sql/webhook-columns.ts";
import type { WebhookEvent } from "./event.ts";
import type { EventData } from "./event-data.ts";

/** One message to a receiver, the same at every attempt. */
export interface WebhookMessage {
  /** `msg_…`, by which a receiver tells a repetition. */
  readonly id: string;
  readonly body: string;
}

const SECRET_BYTES = 32;
const ID_BYTES = 16;
const USER_AGENT = "Agent-Control-Plane/1";

/** A new secret: `whsec_` and the base64 of 32 bytes from the system's generator. */
export const createWebhookSecret = (): string => `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;

/** A new id of a webhook. */
export const createWebhookId = (): string => `wh_${base32FromBytes(createUuidV7(Date.now()))}`;

function bodyOf(type: string, timestamp: string, data: EventData): string {
  return JSON.stringify({ type, timestamp, data });
}

/** The message that tells a webhook of an event. Its id follows from workspace, webhook and index, and from nothing else. */
export function messageFrom(
  webhook: Pick<StoredWebhook, "workspaceId" | "webhookId">,
  event: WebhookEvent,
): WebhookMessage {
  const { workspaceId, webhookId } = webhook;
  const digest = createHash("sha256")
    .update(JSON.stringify([workspaceId, webhookId, event.seq]))
    .digest();
  const id = `msg_${base32FromBytes(digest.subarray(0, ID_BYTES))}`;
  return { id, body: bodyOf(event.name, event.at, event.data) };
}

/** The message of a test, with an id of its own. */
export function testMessage({ workspaceId, webhookId }: StoredWebhook, nowMs: number): WebhookMessage {
  const data = { workspace_id: workspaceId, webhook_id: webhookId };
  const id = `msg_${base32FromBytes(createUuidV7(nowMs))}`;
  return { id, body: bodyOf("webhook.test", new Date(nowMs).toISOString(), data) };
}

/** The secrets that sign at a time, the newest first. */
function secretsAt({ secret, oldSecret, oldSecretUntilMs }: StoredWebhook, nowMs: number): string[] {
  const isOldGood = oldSecret !== null && oldSecretUntilMs !== null && nowMs < oldSecretUntilMs;
  return isOldGood ? [secret, oldSecret] : [secret];
}

/**
 * The headers of a request: those of Standard Webhooks, signed with every secret that is good, and `X-Service-Signature`,
 * which has room for one signature: that of the newest secret.
 */
export function headersFor(
  webhook: StoredWebhook,
  { id, body }: WebhookMessage,
  nowMs: number,
): Record<string, string> {
  const at = new Date(nowMs);
  const signatures = secretsAt(webhook, nowMs).map((secret) => new Signer(secret).sign(id, at, body));
  return {
    "Content-Type": "application/json",
    "User-Agent": USER_AGENT,
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(nowMs / 1000)),
    "webhook-signature": signatures.join(" "),
    "X-Service-Signature": `sha256=${createHmac("sha256", webhook.secret).update(body).digest("hex")}`,
  };
}
