import { NOW_MS, type StoredWebhook, WEBHOOK_COLUMNS } from "./change-webhook.ts";

/** A webhook's row after its lease was renewed. */
export interface RenewedWebhook extends StoredWebhook {
  /** Size of its workspace's log. */
  readonly logSize: number;
}

/**
 * Leases active webhooks without a valid lease. Rows that another process is leasing at the same time are skipped, so that
 * processes share the free webhooks instead of waiting for each other.
 * Parameters: owner, lease in milliseconds, ids of the webhooks that the owner delivers already, most rows.
 */
export const claimWebhooks = {
  name: "claim-webhooks",
  text: `with free as materialized (
      select workspace_id, webhook_id from webhook
      where is_active and (lease_owner is null or lease_owner = $1 or lease_until_ms <= ${NOW_MS})
        and webhook_id <> all($3::text[])
      limit $4 for update skip locked
    )
    update webhook w set lease_owner = $1, lease_until_ms = ${NOW_MS} + $2::int
    from free where w.workspace_id = free.workspace_id and w.webhook_id = free.webhook_id
    returning ${WEBHOOK_COLUMNS}`,
};

/**
 * Renews the leases of an owner and moves the cursors over entries without events. Returns `RenewedWebhook` rows; a missing
 * one has another owner or was deleted. A cursor never moves back, nor after a change that the owner has not seen.
 * Parameters: owner, lease in milliseconds, workspaces, webhooks, cursors, revisions.
 */
export const renewWebhooks = {
  name: "renew-webhooks",
  text: `update webhook w set lease_until_ms = ${NOW_MS} + $2::int,
      next_seq = case when w.revision = held.revision then greatest(w.next_seq, held.next_seq) else w.next_seq end
    from unnest($3::text[], $4::text[], $5::bigint[], $6::int[]) as held (workspace_id, webhook_id, next_seq, revision)
    where w.workspace_id = held.workspace_id and w.webhook_id = held.webhook_id and w.lease_owner = $1
    returning ${WEBHOOK_COLUMNS},
      (select seq::float8 from ledger_head h where h.workspace_id = w.workspace_id) as "logSize"`,
};

/** Releases every lease of an owner. Parameter: owner. */
export const releaseWebhooks = {
  name: "release-webhooks",
  text: "update webhook set lease_owner = null, lease_until_ms = null where lease_owner = $1",
};

/** Entries that one statement searches, so that none runs long even if all of them are changes. */
const SPAN = 200_000;

// MUST equal the conditions of the indexes `ledger_entry_event` and `ledger_entry_overdrawn`, or the planner cannot use them.
const MAY_BE_EVENT = "(kind = 1 or decision >= 2)";
const IS_OVERDRAWN = "starts_with(ref_id, 'over')";

/**
 * Reads entries that may be events of a webhook, oldest first, and the index `end` up to which the log was searched, at most
 * `size`, the size of the log in the same snapshot. Allowed actions cost nothing, since the indexes exclude them. MAY return
 * other changes too, because their type is searched as text.
 * Parameters: workspace, first index, decisions and numbers of outcomes, texts of which a change has one, most rows, whether entries
 * that overdraw a budget are wanted.
 * Without events it returns one row without `seq`; no row: no such workspace.
 */
export const readWebhookEvents = {
  name: "read-webhook-events",
  text: `select h.seq::float8 as size, least(h.seq, $2::bigint + ${SPAN})::float8 as "end", e.seq::float8 as seq, e.body
    from ledger_head h left join lateral (
      select seq, body from (
        (select seq, body from ledger_entry
          where workspace_id = $1 and seq >= $2::bigint and seq < least(h.seq, $2::bigint + ${SPAN}) and ${MAY_BE_EVENT}
            and (decision = any($3::smallint[])
              or (kind = 1 and exists (select from unnest($4::text[]) as type (text) where strpos(body, type.text) > 0)))
          order by seq limit $5)
        union all
        (select seq, body from ledger_entry
          where $6::boolean and workspace_id = $1 and seq >= $2::bigint and seq < least(h.seq, $2::bigint + ${SPAN})
            and ${IS_OVERDRAWN}
          order by seq limit $5)
      ) found order by found.seq limit $5
    ) e on true
    where h.workspace_id = $1 order by e.seq`,
};

/**
 * Counts the events after the cursors of webhooks. `goesOn` is true if the log has more entries than are searched. The canonical text
 * of a change ends with its type and workspace, which no text within it can forge. An escalation that is asked for again is no event,
 * and has no row of its own.
 * Parameters: workspace, webhooks, most entries to search, most events to count, the decision that escalates, then in pairs
 * events and their decisions or outcomes, events and the endings of their changes, then the event of entries that overdraw a budget.
 */
export const countWebhookBacklogs = {
  name: "count-webhook-backlogs",
  text: `select w.webhook_id as "webhookId", waiting.count, h.seq > w.next_seq + $3::bigint as "goesOn"
    from webhook w join ledger_head h on h.workspace_id = w.workspace_id
    cross join lateral (
      select count(*)::int as count from (
        (select from ledger_entry e
          where e.workspace_id = $1 and e.seq >= w.next_seq and e.seq < least(h.seq, w.next_seq + $3::bigint)
            and ${MAY_BE_EVENT}
            and (exists (select from unnest($6::text[], $7::smallint[]) as d (event, decision)
                where d.event = any(w.events) and d.decision = e.decision
                  and (d.decision <> $5::smallint or exists (
                    select from escalation s where s.workspace_id = $1 and s.created_seq = e.seq)))
              or (e.kind = 1 and exists (select from unnest($8::text[], $9::text[]) as c (event, ending)
                where c.event = any(w.events) and right(e.body, length(c.ending)) = c.ending)))
          limit $4)
        union all
        (select from ledger_entry
          where $10::text = any(w.events) and workspace_id = $1 and seq >= w.next_seq
            and seq < least(h.seq, w.next_seq + $3::bigint) and ${IS_OVERDRAWN}
          limit $4)
        limit $4
      ) found
    ) waiting
    where w.workspace_id = $1 and w.webhook_id = any($2::text[])`,
};

/**
 * Reads a webhook right before an attempt, so that a change applies to the next request. No row: it is inactive or deleted,
 * or the owner's lease is over. Parameters: workspace, webhook, owner.
 */
export const readWebhookForAttempt = {
  name: "read-webhook-for-attempt",
  text: `select ${WEBHOOK_COLUMNS} from webhook w
    where workspace_id = $1 and webhook_id = $2 and lease_owner = $3 and lease_until_ms > ${NOW_MS} and is_active`,
};

const INSERT_DELIVERY = `insert into webhook_delivery
  (workspace_id, webhook_id, message_id, event, seq, attempt, at_ms, delivered, status_code, error, duration_ms)`;

/**
 * Records an attempt and moves the cursor, in one statement so that the list of attempts and the cursor never disagree. If
 * the webhook was changed meanwhile, the attempt is still listed, but the cursor stays where the change put it.
 * Parameters: workspace, webhook, message id, event, index, attempt, time, delivered, status, error, milliseconds,
 * owner, revision, cursor, failures, failing since, next attempt, whether it stays active.
 * Returns one row if the state was updated.
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

/**
 * Puts the next attempt off without an attempt, unless the webhook was changed or leased by another process meanwhile.
 * Parameters: workspace, webhook, owner, revision, time.
 */
export const holdWebhook = {
  name: "hold-webhook",
  text: `update webhook set next_attempt_at_ms = $5::bigint
    where workspace_id = $1 and webhook_id = $2 and lease_owner = $3 and revision = $4::int`,
};

/** Records an attempt without moving the cursor. Parameters: the first eleven of `finishWebhookAttempt`. */
export const recordWebhookAttempt = {
  name: "record-webhook-attempt",
  text: `${INSERT_DELIVERY}
    select $1, $2, $3, $4, $5::bigint, $6::int, $7::bigint, $8::boolean, $9::smallint, $10, $11::int
    from webhook where workspace_id = $1 and webhook_id = $2`,
};

/** Removes the oldest attempts before a time. Parameters: epoch milliseconds, most rows. */
export const pruneWebhookDeliveries = {
  name: "prune-webhook-deliveries",
  text: `delete from webhook_delivery where ctid = any(array(
    select ctid from webhook_delivery where at_ms < $1 order by at_ms limit $2))`,
};
