import { WEBHOOK_COLUMNS } from "./change-webhook.ts";

/**
 * Adds a channel that starts at the end of the log, unless its holder has as many of its kind as there may be. Parameters: workspace,
 * id, kind, holder, label, public address, events as an array literal, time, encrypted address, most of the kind. No row: there are as many already.
 */
export const insertChannel = {
  name: "insert-channel",
  text: `insert into webhook as w
      (workspace_id, webhook_id, kind, holder, label, url, events, is_active, created_at_ms, sealed_secret, next_seq, revision, failures)
    select $1, $2, $3, $4, $5, $6, $7::text[], true, $8::bigint, $9, seq, 0, 0 from ledger_head
    where workspace_id = $1
      and (select count(*) from webhook where workspace_id = $1 and holder = $4 and kind = $3) < $10::int
    returning ${WEBHOOK_COLUMNS}`,
};

/** A channel's row with the error of its last attempt; null if that one succeeded or there was none. */
export const CHANNEL_COLUMNS = `${WEBHOOK_COLUMNS}, case when w.failures > 0 or not w.is_active then (
    select d.error from webhook_delivery d where d.workspace_id = w.workspace_id and d.webhook_id = w.webhook_id
    order by d.delivery_no desc limit 1) end as "error"`;

/** Lists the channels of a holder, oldest first. Parameters: workspace, holder. */
export const listChannels = {
  name: "list-channels",
  text: `select ${CHANNEL_COLUMNS} from webhook w
    where w.workspace_id = $1 and w.holder = $2 and w.kind <> 'webhook' order by w.created_at_ms, w.webhook_id`,
};

/** Reads one channel of a holder. Parameters: workspace, channel, holder. */
export const readChannel = {
  name: "read-channel",
  text: `select ${CHANNEL_COLUMNS} from webhook w
    where w.workspace_id = $1 and w.webhook_id = $2 and w.holder = $3 and w.kind <> 'webhook'`,
};

/** Deletes a channel of a holder; its attempts are pruned later. Parameters: workspace, channel, holder. */
export const deleteChannel = {
  name: "delete-channel",
  text: `delete from webhook w where workspace_id = $1 and webhook_id = $2 and holder = $3 and kind <> 'webhook'
    returning ${WEBHOOK_COLUMNS}, null as "error"`,
};

/**
 * Tries the channels of a holder at once, and again if a receiver had gone: what they were waiting for may have changed.
 * Parameters: workspace, holder (null: every channel of the kind), kind (null: any).
 */
export const refreshChannels = {
  name: "refresh-channels",
  text: `update webhook set failures = 0, failing_since_ms = null, next_attempt_at_ms = null, revision = revision + 1
    where workspace_id = $1 and kind <> 'webhook' and ($2::text is null or holder = $2) and ($3::text is null or kind = $3)`,
};

/** Number of escalations of a workspace that wait for a person, at most 1,000. Parameter: workspace. */
export const countPending = {
  name: "count-pending-escalations",
  text: `select count(*)::int as count from (
    select from escalation where workspace_id = $1 and status = 1 limit 1000) pending`,
};

/** Reads the role of a key that works, and its owner. Parameters: workspace, key, time. No row: the key has ended. */
export const readKeyRole = {
  name: "read-key-role",
  text: `select role, owner from api_key where workspace_id = $1 and key_id = $2 and revoked_at_ms is null
    and (expires_at_ms is null or expires_at_ms > $3::bigint)`,
};

/**
 * Reads the role with which a person is signed in, by a membership that was checked lately. Parameters: workspace, name, time,
 * milliseconds for which a check counts. No row: the person is not signed in, or was deactivated.
 */
export const readSignInRole = {
  name: "read-sign-in-role",
  text: `select s.role from sign_in s join person p on p.workspace_id = s.workspace_id and p.actor = s.holder
    where s.workspace_id = $1 and s.holder = $2 and s.person and s.expires_at_ms > $3::bigint
      and p.deactivated_at_ms is null and p.left_at_ms is null and coalesce(p.checked_at_ms, s.created_at_ms) + $4::bigint > $3::bigint
    order by s.created_at_ms desc limit 1`,
};

/** Reads what decides on the rights of a person. Parameters: workspace, name. No row: unknown. */
export const readStanding = {
  name: "read-person-standing",
  text: `select role, group_role as "groupRole", checked_at_ms as "checkedAtMs", deactivated_at_ms as "deactivatedAtMs",
      left_at_ms as "leftAtMs" from person where workspace_id = $1 and actor = $2`,
};
