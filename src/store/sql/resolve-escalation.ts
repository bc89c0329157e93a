/**
 * Resolves a pending escalation and appends the entry of it, if the log still ends where the entry was made for. One
 * statement without a lock before it: a human's answer is waited for. The head's row serialises as for a batch of
 * decisions, and since every resolution moves the head, one that was first leaves nothing to match here.
 *
 * Parameters: workspace, expected size, expected frontier, frontier, time, entry id, agent, leaf hash, the roots of the
 * perfect subtrees that the leaf completes (32 bytes each; null for none), body, escalation, status, who resolves, note,
 * channel and payload of the notification. Gives one row, or none when nothing was written.
 */
export const resolveAtOnce = {
  name: "resolve-at-once",
  text: `with head as (
      update ledger_head set seq = $2::bigint + 1, frontier = $4, last_at_ms = $5
      where workspace_id = $1 and seq = $2::bigint and frontier = $3 and exists (
        select from escalation where workspace_id = $1 and escalation_id = $11 and resolved_seq is null
      )
      returning 1
    ), written as (
      insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, leaf_hash, subtree_hashes, body)
      select $1, $2::bigint, $5, 1, $6, $7, $8, $9, $10 from head
    ), resolved as (
      update escalation set status = $12, resolved_seq = $2::bigint, resolved_at_ms = $5, resolved_by = $13, note = $14
      from head where workspace_id = $1 and escalation_id = $11
    )
    select pg_notify($15, $16) from head`,
};
