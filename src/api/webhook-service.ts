import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type WebhookDeliverySchema,
  type WebhookSchema,
  WebhookService,
} from "../../gen/agentcontrol/v1/webhook_service_pb.js";
import { invalidField } from "../errors.ts";
import type { Attempt } from "../webhook/post-attempt.ts";
import type { Webhook, Webhooks } from "../webhook/webhooks.ts";
import { optionalTimestamp } from "./field-values.ts";
import { namePageFrom, pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that WebhookService needs. */
export interface WebhookServiceOptions {
  readonly webhooks: Webhooks;
}

function messageFrom(webhook: Webhook): MessageInitShape<typeof WebhookSchema> {
  const { webhookId, url, events, isActive, createdAtMs, nextSeq, failures, nextAttemptAtMs } = webhook;
  return {
    webhookId,
    url,
    events: [...events],
    isActive,
    failures,
    createdAt: timestampFromMs(createdAtMs),
    nextSeq: BigInt(nextSeq),
    nextAttemptAt: optionalTimestamp(nextAttemptAtMs),
  };
}

function deliveryFrom(attempt: Attempt): MessageInitShape<typeof WebhookDeliverySchema> {
  const { atMs, seq, statusCode, error, ...rest } = attempt;
  return {
    ...rest,
    at: timestampFromMs(atMs),
    seq: seq === null ? undefined : BigInt(seq),
    statusCode: statusCode ?? undefined,
    error: error ?? undefined,
  };
}

/** Converts the index of a log entry. Throws INVALID_FIELD above the safe integers, which no log reaches. */
function seqFrom(seq: bigint): number {
  if (seq <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(seq);
  throw invalidField("from_seq", "must be at most `next_seq`");
}

/** Creates the functions of WebhookService. */
export function createWebhookService({ webhooks }: WebhookServiceOptions): ServiceDefinition {
  return defineService(WebhookService, {
    async createWebhook({ url, events }, { caller }) {
      const { webhook, secret } = await webhooks.create(caller, { url, events });
      return { webhook: messageFrom(webhook), secret };
    },

    async listWebhooks(request, { caller }) {
      const page = namePageFrom(request, "webhooks");
      const { items, next } = await webhooks.list(caller, page);
      return { webhooks: items.map(messageFrom), nextPageToken: page.tokenAfter(next) };
    },

    async getWebhook({ webhookId }, { caller }) {
      return { webhook: messageFrom(await webhooks.get(caller, webhookId)) };
    },

    async updateWebhook({ webhookId, url, events, isActive }, { caller }) {
      const update = { url, events: events.length === 0 ? undefined : events, isActive };
      return { webhook: messageFrom(await webhooks.update(caller, webhookId, update)) };
    },

    async deleteWebhook({ webhookId }, { caller }) {
      return { webhook: messageFrom(await webhooks.delete(caller, webhookId)) };
    },

    async rotateWebhookSecret({ webhookId }, { caller }) {
      const { webhook, secret, oldSecretUntilMs } = await webhooks.rotate(caller, webhookId);
      return { webhook: messageFrom(webhook), secret, oldSecretUntil: timestampFromMs(oldSecretUntilMs) };
    },

    async testWebhook({ webhookId }, { caller, signal }) {
      return { delivery: deliveryFrom(await webhooks.test(caller, webhookId, signal)) };
    },

    async listWebhookDeliveries(request, { caller }) {
      const { webhookId } = request;
      const page = pageFrom(request, "webhook deliveries", webhookId);
      const { items, next } = await webhooks.deliveries(caller, webhookId, page);
      return { deliveries: items.map(deliveryFrom), nextPageToken: page.tokenAfter(next) };
    },

    async replayWebhook({ webhookId, fromSeq }, { caller }) {
      return { webhook: messageFrom(await webhooks.replay(caller, webhookId, seqFrom(fromSeq))) };
    },
  });
}
