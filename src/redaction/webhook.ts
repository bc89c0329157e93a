import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { RedactionWebhookRow } from "../store/entities.ts";

/** What redaction tells of. */
export const LEAKAGE_EVENT = "leakage.detected";

/** A webhook that hears of leakage, without its secret. */
export interface RedactionWebhook {
  /** `wh_…`. */
  readonly webhookId: string;
  readonly url: string;
  readonly hasSecret: boolean;
  readonly isActive: boolean;
  /** Epoch milliseconds. */
  readonly createdAtMs: number;
}

/** The webhook of a row. */
export function redactionWebhookFrom(row: RedactionWebhookRow): RedactionWebhook {
  const { webhookId, url, isActive, createdAtMs } = row;
  return { webhookId, url, hasSecret: (row.sealedSecret ?? null) !== null, isActive, createdAtMs };
}

/** The error for a webhook that the workspace does not have. */
export function redactionWebhookNotFound(webhookId: string): ControlPlaneError {
  const metadata = { webhook_id: webhookId };
  return new ControlPlaneError(ErrorReason.WEBHOOK_NOT_FOUND, `no webhook \`${webhookId}\``, metadata);
}
