import { defineEntity, type InferEntity, p } from "@mikro-orm/postgresql";

/** A webhook: where it goes, how far it got, and which process delivers it. Its lease is the statements' own affair. */
export const WebhookEntity = defineEntity({
  name: "Webhook",
  tableName: "webhook",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    url: p.text(),
    events: p.array<string>(),
    isActive: p.boolean(),
    createdAtMs: p.bigint("number"),
    nextSeq: p.bigint("number"),
    failures: p.integer(),
    nextAttemptAtMs: p.bigint("number").nullable(),
  },
});

/** One attempt to deliver. `deliveryNo` grows in the order in which attempts were recorded. */
export const WebhookDeliveryEntity = defineEntity({
  name: "WebhookDelivery",
  tableName: "webhook_delivery",
  properties: {
    workspaceId: p.text().primary(),
    webhookId: p.text().primary(),
    deliveryNo: p.bigint("number").primary(),
    messageId: p.text(),
    event: p.text(),
    seq: p.bigint("number").nullable(),
    attempt: p.integer(),
    atMs: p.bigint("number"),
    delivered: p.boolean(),
    statusCode: p.integer().nullable(),
    error: p.text().nullable(),
    durationMs: p.integer(),
  },
});

/** One row of each table. */
export type WebhookRow = InferEntity<typeof WebhookEntity>;
export type WebhookDeliveryRow = InferEntity<typeof WebhookDeliveryEntity>;
