/** SQL for the database's clock in whole epoch milliseconds. */
export const NOW_MS = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

/** A webhook's row, with its encrypted secrets. */
export interface StoredWebhook {
  readonly workspaceId: string;
  /** `wh_…`, or a channel's `nch_…`. */
  readonly webhookId: string;
  /** `webhook`, or the kind of a person's channel. */
  readonly kind: string;
  /** Key or person whose channel it is; empty for a webhook, and for a channel of the whole workspace. */
  readonly holder: string;
  /** Text by which the holder knows a channel; empty for a webhook. */
  readonly label: string;
  /** URL of a webhook; what is public of a channel's address. */
  readonly url: string;
  readonly events: readonly string[];
  readonly isActive: boolean;
  readonly createdAtMs: number;
  readonly sealedSecret: Buffer;
  /** Signs too until `oldSecretUntilMs`. */
  readonly sealedOldSecret: Buffer | null;
  readonly oldSecretUntilMs: number | null;
  /** Log index before which all its events were delivered. */
  readonly nextSeq: number;
  /** Number of changes by callers to the URL, the events or the cursor. */
  readonly revision: number;
  /** Failed attempts in a row on the next event. */
  readonly failures: number;
  /** Time of the first of them. */
  readonly failingSinceMs: number | null;
  readonly nextAttemptAtMs: number | null;
}

/** The columns of `StoredWebhook`, of the table or alias `w`. */
export const WEBHOOK_COLUMNS = `w.workspace_id as "workspaceId", w.webhook_id as "webhookId", w.kind, w.holder, w.label, w.url, w.events,
  w.is_active as "isActive", w.created_at_ms::float8 as "createdAtMs", w.sealed_secret as "sealedSecret",
  w.sealed_old_secret as "sealedOldSecret",
  w.old_secret_until_ms::float8 as "oldSecretUntilMs", w.next_seq::float8 as "nextSeq", w.revision, w.failures,
  w.failing_since_ms::float8 as "failingSinceMs", w.next_attempt_at_ms::float8 as "nextAttemptAtMs"`;

// Past failures say nothing about the changed webhook, which is therefore tried at once.
const FRESH = "failures = 0, failing_since_ms = null, next_attempt_at_ms = null, revision = w.revision + 1";

/**
 * Registers a webhook that starts at the end of the log. Parameters: workspace, webhook, URL, events, time, encrypted secret.
 * No row: no such workspace.
 */
export const insertWebhook = {
  name: "insert-webhook",
  text: `insert into webhook as w
      (workspace_id, webhook_id, url, events, is_active, created_at_ms, sealed_secret, next_seq, revision, failures)
    select $1, $2, $3, $4::text[], true, $5::bigint, $6, seq, 0, 0 from ledger_head where workspace_id = $1
    returning ${WEBHOOK_COLUMNS}`,
};

/** Changes a webhook; null leaves a column. Parameters: workspace, webhook, URL, events, whether it is active. */
export const updateWebhook = {
  name: "update-webhook",
  text: `update webhook w set url = coalesce($3, w.url), events = coalesce($4::text[], w.events),
      is_active = coalesce($5::boolean, w.is_active), ${FRESH}
    where workspace_id = $1 and webhook_id = $2 and kind = 'webhook' returning ${WEBHOOK_COLUMNS}`,
};

/** Sets the cursor back. Parameters: workspace, webhook, index. No row: no such webhook, or its cursor is before that. */
export const replayWebhook = {
  name: "replay-webhook",
  text: `update webhook w set next_seq = $3::bigint, ${FRESH}
    where workspace_id = $1 and webhook_id = $2 and kind = 'webhook' and next_seq >= $3::bigint returning ${WEBHOOK_COLUMNS}`,
};

/**
 * Sets a new secret, unless another call did so meanwhile. Parameters: workspace, webhook, encrypted secret, the old one
 * encrypted for its new column or null, end of its validity, the encrypted secret as it was read. No row: it is another now.
 */
export const rotateWebhookSecret = {
  name: "rotate-webhook-secret",
  text: `update webhook w set sealed_secret = $3, sealed_old_secret = $4, old_secret_until_ms = $5::bigint
    where workspace_id = $1 and webhook_id = $2 and kind = 'webhook' and sealed_secret = $6 returning ${WEBHOOK_COLUMNS}`,
};

/** Deletes a webhook; its attempts are pruned later. Parameters: workspace, webhook. */
export const deleteWebhook = {
  name: "delete-webhook",
  text: `delete from webhook w where workspace_id = $1 and webhook_id = $2 and kind = 'webhook' returning ${WEBHOOK_COLUMNS}`,
};

/** Reads a webhook with its secrets. Parameters: workspace, webhook. */
export const readWebhook = {
  name: "read-webhook",
  text: `select ${WEBHOOK_COLUMNS} from webhook w where workspace_id = $1 and webhook_id = $2 and kind = 'webhook'`,
};
