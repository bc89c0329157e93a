/** Forgets the linked accounts, codes, messages and channels of a workspace's Slack app. Parameter: workspace. */
export const forgetSlack = {
  name: "forget-slack",
  text: `with accounts as (delete from slack_account where workspace_id = $1),
      codes as (delete from slack_code where workspace_id = $1),
      messages as (delete from slack_message where workspace_id = $1)
    delete from webhook where workspace_id = $1 and kind = 'slack'`,
};

/** Stores a code that links an account, and forgets codes whose time is over. Parameters: workspace, hash, holder, end of its time, now. */
export const insertSlackCode = {
  name: "insert-slack-code",
  text: `with over as (delete from slack_code where workspace_id = $1 and (expires_at_ms <= $5::bigint or holder = $3))
    insert into slack_code (workspace_id, code_hash, holder, expires_at_ms) values ($1, $2, $3, $4)`,
};

/** Uses up a code. Parameters: workspace, hash, time. No row: there is no such code, it was used, or its time is over. */
export const takeSlackCode = {
  name: "take-slack-code",
  text: `delete from slack_code where workspace_id = $1 and code_hash = $2 and expires_at_ms > $3::bigint returning holder`,
};

/**
 * Notes a request of Slack. Parameters: workspace, digest of its signature, time until which it is remembered, now.
 * No row: it was served before, on any process.
 */
export const insertSlackRequest = {
  name: "insert-slack-request",
  text: `with over as (delete from slack_request where expires_at_ms <= $4::bigint)
    insert into slack_request (workspace_id, digest, expires_at_ms) values ($1, $2, $3::bigint)
    on conflict do nothing returning 1`,
};

/** Links an account to a holder in place of an earlier one. Parameters: workspace, team, user, holder, channel, time. */
export const linkSlackAccount = {
  name: "link-slack-account",
  text: `insert into slack_account (workspace_id, team_id, user_id, holder, channel_id, linked_at_ms)
    values ($1, $2, $3, $4, $5, $6::bigint)
    on conflict (workspace_id, team_id, user_id) do update
      set holder = excluded.holder, channel_id = excluded.channel_id, linked_at_ms = excluded.linked_at_ms`,
};

/** Reads the holder of an account and the channel that tells it. Parameters: workspace, team, user. */
export const readSlackAccount = {
  name: "read-slack-account",
  text: `select holder, channel_id as "channelId" from slack_account
    where workspace_id = $1 and team_id = $2 and user_id = $3`,
};

/** Unlinks the account of a channel, and returns it. Parameters: workspace, channel. */
export const unlinkSlackAccount = {
  name: "unlink-slack-account",
  text: `delete from slack_account where workspace_id = $1 and channel_id = $2
    returning team_id as "teamId", user_id as "userId", holder`,
};

/** Deletes a channel whatever its holder. Parameters: workspace, channel. */
export const deleteSlackChannel = {
  name: "delete-slack-channel",
  text: "delete from webhook where workspace_id = $1 and webhook_id = $2 and kind = 'slack'",
};

/**
 * Remembers the message that told a channel of an escalation. Parameters: workspace, channel, escalation, Slack's channel, its
 * message, whether it has buttons for the answer.
 */
export const insertSlackMessage = {
  name: "insert-slack-message",
  text: `insert into slack_message (workspace_id, webhook_id, escalation_id, channel, ts, is_answerable)
    values ($1, $2, $3, $4, $5, $6::boolean)
    on conflict (workspace_id, webhook_id, escalation_id) do update
      set channel = excluded.channel, ts = excluded.ts, is_answerable = excluded.is_answerable`,
};

/** Reads that message. Parameters: workspace, channel, escalation. */
export const readSlackMessage = {
  name: "read-slack-message",
  text: `select channel, ts from slack_message where workspace_id = $1 and webhook_id = $2 and escalation_id = $3`,
};

/** Tests whether a message showed an escalation with buttons for its answer. Parameters: workspace, escalation, Slack's channel, its message. */
export const hasSlackMessage = {
  name: "has-slack-message",
  text: `select 1 from slack_message
    where workspace_id = $1 and escalation_id = $2 and channel = $3 and ts = $4 and is_answerable`,
};

/** Forgets the messages of a channel about an escalation, or all of the channel (null). Parameters: workspace, channel, escalation. */
export const deleteSlackMessages = {
  name: "delete-slack-messages",
  text: `delete from slack_message where workspace_id = $1 and webhook_id = $2 and ($3::text is null or escalation_id = $3)`,
};
