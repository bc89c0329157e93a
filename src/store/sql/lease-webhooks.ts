import { NOW_MS, type StoredWebhook, WEBHOOK_COLUMNS } from "./webhook-columns.ts";

/** A webhook whose lease was renewed. */
export interface RenewedWebhook extends StoredWebhook {
  /** Entries of its workspace's log, whichever process appended them. */
  readonly logSize: number;
}

/**
 * Takes active webhooks that no process delivers, or whose process let its lease run out. Rows that another process is
 * taking at this moment are passed over, so that processes share what is free instead of waiting for each other.
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
 * Renews the leases of an owner and moves the cursors over entries without events. A webhook that is missing from the
 * answer has another owner or is gone. A cursor never moves back, nor past a change that its owner does not know of.
 * Gives rows of `RenewedWebhook`.
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

/** Gives every lease of an owner back. Parameter: owner. */
export const releaseWebhooks = {
  name: "release-webhooks",
  text: "update webhook set lease_owner = null, lease_until_ms = null where lease_owner = $1",
};
