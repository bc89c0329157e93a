export type { Attempt } from "./attempt.ts";
export type { EventName } from "./event.ts";
export type { TargetAnswer } from "./pinned-post.ts";
export { DEFAULT_TIMING, type DeliveryTiming } from "./schedule.ts";
export { createTargets, type Lookup, type TargetRequest, type Targets, type TargetsOptions } from "./target.ts";
export type { Webhook, WebhookDraft, WebhookUpdate } from "./webhook.ts";
export {
  createWebhooks,
  type WebhookCaller,
  type WebhookSecret,
  type Webhooks,
  type WebhooksOptions,
} from "./webhooks.ts";
