/** The database's clock in whole epoch milliseconds, as leases are measured by. */
export const NOW_MS = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/** A webhook as the statements of this folder give it, secrets included. */
export interface StoredWebhook {
  readonly workspaceId: string;
  readonly webhookId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly isActive: boolean;
  readonly createdAtMs: number;
  readonly secret: string;
  /** Signs too until `oldSecretUntilMs`. */
  readonly oldSecret: string | null;
  readonly oldSecretUntilMs: number | null;
  /** Everything before this index of the log was delivered or is none of its events. */
  readonly nextSeq: number;
  /** Counts the changes that were made from outside to what is delivered, where to, or from where on. */
  readonly revision: number;
  /** Attempts in a row that failed on the event that is next. */
  readonly failures: number;
  /** When the first of them failed. */
  readonly failingSinceMs: number | null;
  readonly nextAttemptAtMs: number | null;
}

/** The columns of `StoredWebhook`, of the table or alias `w`. */
export const WEBHOOK_COLUMNS = `w.workspace_id as "workspaceId", w.webhook_id as "webhookId", w.url, w.events,
  w.is_active as "isActive", w.created_at_ms::float8 as "createdAtMs", w.secret, w.old_secret as "oldSecret",
  w.old_secret_until_ms::float8 as "oldSecretUntilMs", w.next_seq::float8 as "nextSeq", w.revision, w.failures,
  w.failing_since_ms::float8 as "failingSinceMs", w.next_attempt_at_ms::float8 as "nextAttemptAtMs"`;
