export { loadRedactionKey } from "./key.ts";
export type { AddedValues, PersonalValue, PersonalValueDraft, PersonalValues } from "./personal-values.ts";
export { createRedactionProxy, type RedactionProxy, type RedactionProxyOptions } from "./proxy/proxy.ts";
export { createRedaction, type Redaction, type RedactionOptions, type ScrubbedText } from "./redaction.ts";
export type { RedactionSettings } from "./settings.ts";
export { zonelessTime } from "./time.ts";
export { LEAKAGE_EVENT, type RedactionWebhook } from "./webhook.ts";
export type { RedactionCaller, RedactionWebhookDraft, RedactionWebhooks } from "./webhooks.ts";
