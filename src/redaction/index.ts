export { PERSONAL_KINDS } from "../text/personal-kinds.ts";
export {
  LEAKAGE_EVENT,
  type RedactionCaller,
  type RedactionWebhook,
  type RedactionWebhookDraft,
  type RedactionWebhooks,
  zonelessTime,
} from "./leakage-webhooks.ts";
export type {
  AddedValues,
  PersonalValue,
  PersonalValueDraft,
  PersonalValues,
} from "./personal-values.ts";
export { createRedactionProxy, type RedactionProxy, type RedactionProxyOptions } from "./proxy/proxy.ts";
export { createRedaction, type Redaction, type RedactionOptions, type ScrubbedText } from "./redaction.ts";
export type { RedactionSettings } from "./settings.ts";
