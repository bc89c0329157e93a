import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** A webhook as it is shown: without its secrets. */
export interface Webhook {
  /** `wh_…`. */
  readonly webhookId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly isActive: boolean;
  readonly createdAtMs: number;
  /** Everything before this index of the log was delivered or is none of its events. */
  readonly nextSeq: number;
  /** Attempts in a row that failed on the event that is next. */
  readonly failures: number;
  /** Null when nothing waits. */
  readonly nextAttemptAtMs: number | null;
}

/** What a webhook is registered with. */
export interface WebhookDraft {
  readonly url: string;
  readonly events: readonly string[];
}

/** What is to change; undefined leaves it. */
export interface WebhookUpdate {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly isActive?: boolean | undefined;
}

/** The webhook of a row, whatever else the row holds. */
export function webhookFrom(
  row: Omit<Webhook, "nextAttemptAtMs"> & { readonly nextAttemptAtMs?: number | null | undefined },
): Webhook {
  const { webhookId, url, events, isActive, createdAtMs, nextSeq, failures, nextAttemptAtMs = null } = row;
  return { webhookId, url, events, isActive, createdAtMs, nextSeq, failures, nextAttemptAtMs };
}

/** The error for a webhook that the workspace does not have. */
export function webhookNotFound(webhookId: string): ControlPlaneError {
  const metadata = { webhook_id: webhookId };
  return new ControlPlaneError(ErrorReason.WEBHOOK_NOT_FOUND, `no webhook \`${webhookId}\``, metadata);
}
