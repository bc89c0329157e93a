import { NOW_MS, WEBHOOK_COLUMNS } from "./webhook-columns.ts";

/**
 * Reads a webhook right before an attempt, so that a change of it holds for the next request. No row: it is inactive or
 * gone, or the lease is not the owner's. Parameters: workspace, webhook, owner.
 */
export const readWebhookForAttempt = {
  name: "read-webhook-for-attempt",
  text: `select ${WEBHOOK_COLUMNS} from webhook w
    where workspace_id = $1 and webhook_id = $2 and lease_owner = $3 and lease_until_ms > ${NOW_MS} and is_active`,
};

const INSERT_DELIVERY = `insert into webhook_delivery
  (workspace_id, webhook_id, message_id, event, seq, attempt, at_ms, delivered, status_code, error, duration_ms)`;

/**
 * Records an attempt and what follows from it, in one statement: a cursor that moved without its line in the list, or the
 * other way round, would have two answers to what was delivered. The attempt is listed even if the webhook was changed
 * meanwhile, for it was made; the cursor is then left where the change put it.
 * Parameters: workspace, webhook, message id, event, index, attempt, time, delivered, status, error, milliseconds,
 * owner, revision, cursor, failures, failing since, next attempt, whether it stays active.
 * Gives one row when the cursor is as told.
 */
export const finishWebhookAttempt = {
  name: "finish-webhook-attempt",
  text: `with listed as (
      ${INSERT_DELIVERY}
      select $1, $2, $3, $4, $5::bigint, $6::int, $7::bigint, $8::boolean, $9::smallint, $10, $11::int
      from webhook where workspace_id = $1 and webhook_id = $2
    )
    update webhook set next_seq = $14::bigint, failures = $15::int, failing_since_ms = $16::bigint,
      next_attempt_at_ms = $17::bigint, is_active = is_active and $18::boolean
    where workspace_id = $1 and webhook_id = $2 and lease_owner = $12 and revision = $13::int
    returning 1`,
};

/** Records an attempt that moves no cursor. Parameters: the first eleven of `finishWebhookAttempt`. */
export const recordWebhookAttempt = {
  name: "record-webhook-attempt",
  text: `${INSERT_DELIVERY}
    select $1, $2, $3, $4, $5::bigint, $6::int, $7::bigint, $8::boolean, $9::smallint, $10, $11::int
    from webhook where workspace_id = $1 and webhook_id = $2`,
};

/** Removes attempts made before a time, the oldest first. Parameters: time in epoch milliseconds, most rows. */
export const pruneWebhookDeliveries = {
  name: "prune-webhook-deliveries",
  text: `delete from webhook_delivery where ctid = any(array(
    select ctid from webhook_delivery where at_ms < $1 order by at_ms limit $2))`,
};
