import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type WebhookDeliverySchema,
  type WebhookSchema,
  WebhookService,
} from "../../gen/agentcontrol/v1/webhook_service_pb.js";
import { invalidField } from "../errors.ts";
import type { Backlog } from "../webhook/backlog.ts";
import type { Attempt } from "../webhook/post-attempt.ts";
import type { Webhook, WebhookCaller, Webhooks } from "../webhook/webhooks.ts";
import { optionalTimestamp } from "./field-values.ts";
import { namePageFrom, pageFrom } from "./paging.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that WebhookService needs. */
export interface WebhookServiceOptions {
  readonly webhooks: Webhooks;
}

function messageFrom(webhook: Webhook, backlog: Backlog | undefined): MessageInitShape<typeof WebhookSchema> {
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
    backlog: backlog?.count ?? 0,
    backlogIsPartial: backlog?.isPartial ?? false,
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
  const allShown = async (items: readonly Webhook[], caller: WebhookCaller) => {
    const backlogs = await webhooks.backlogs(
      caller,
      items.map(({ webhookId }) => webhookId),
    );
    return items.map((webhook) => messageFrom(webhook, backlogs.get(webhook.webhookId)));
  };
  const shown = async (webhook: Webhook, caller: WebhookCaller) => (await allShown([webhook], caller))[0] ?? {};
  return defineService(WebhookService, {
    async createWebhook({ url, events }, { caller }) {
      const { webhook, secret } = await webhooks.create(caller, { url, events });
      return { webhook: await shown(webhook, caller), secret };
    },

    async listWebhooks(request, { caller }) {
      const page = namePageFrom(request, "webhooks");
      const { items, next } = await webhooks.list(caller, page);
      return { webhooks: await allShown(items, caller), nextPageToken: page.tokenAfter(next) };
    },

    async getWebhook({ webhookId }, { caller }) {
      return { webhook: await shown(await webhooks.get(caller, webhookId), caller) };
    },

    async updateWebhook({ webhookId, url, events, isActive }, { caller }) {
      const update = { url, events: events.length === 0 ? undefined : events, isActive };
      return { webhook: await shown(await webhooks.update(caller, webhookId, update), caller) };
    },

    async deleteWebhook({ webhookId }, { caller }) {
      return { webhook: await shown(await webhooks.delete(caller, webhookId), caller) };
    },

    async rotateWebhookSecret({ webhookId }, { caller }) {
      const { webhook, secret, oldSecretUntilMs } = await webhooks.rotate(caller, webhookId);
      return { webhook: await shown(webhook, caller), secret, oldSecretUntil: timestampFromMs(oldSecretUntilMs) };
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
      return { webhook: await shown(await webhooks.replay(caller, webhookId, seqFrom(fromSeq)), caller) };
    },
  });
}
