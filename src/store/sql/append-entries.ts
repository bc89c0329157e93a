/**
 * Appends a batch of decisions, if the log still ends where the batch was decided (compare-and-append).
 *
 * One statement, so that one round trip compares, writes and commits. The head's row is the only lock: UPDATE waits for a
 * writer on another replica, then re-evaluates its condition, matches nothing, and so nothing is inserted. The frontier is
 * compared beside the size because it identifies every entry before: a batch that was sent behind a failed one must not
 * match just because another replica appended the same number of entries.
 * Columns are texts joined by line feeds, which no value contains: node-postgres would quote an array value by value, and
 * the server would parse it again.
 *
 * Parameters: workspace, expected size, count, expected frontier, new frontier, time of the batch; entry ids, agent ids,
 * action types, decisions, refs (joined; an empty ref means none); leaf hashes (32 bytes each); bodies (joined); the roots of
 * the perfect subtrees that the leaves complete (32 bytes each, in the order of completion); the escalations that are
 * created: ids, agents, action digests, positions in the batch from 0 (joined, null for none); the escalations that are used
 * up and the decisions that use them (joined, null for none); the wake-up for other replicas, null when nobody waits; kinds of
 * the entries (joined).
 * Returns one row `{now}`, the server's clock in epoch milliseconds, or no row when another writer was first.
 */
const bits = (number: string): string => `bit_count((${number})::bit(64))`;

// A tree of n leaves holds n minus bits(n) perfect subtrees of two leaves or more, each completed by one leaf. So leaf i
// completes 1 + bits(i) - bits(i + 1) of them, and where their roots begin follows from the sizes of the trees before.
const SUBTREES = `nullif(substr($14::bytea,
    32 * (r.ord - 1 + ${bits("$2::bigint")} - ${bits("$2::bigint + r.ord - 1")})::int + 1,
    32 * (1 + ${bits("$2::bigint + r.ord - 1")} - ${bits("$2::bigint + r.ord")})::int), '')`;

const column = (parameter: number): string => `string_to_table($${parameter}::text, E'\\n')`;

export const appendEntries = {
  name: "append-entries",
  text: `with head as (
    update ledger_head set seq = $2::bigint + $3::int, frontier = $5, last_at_ms = $6
    where workspace_id = $1 and seq = $2::bigint and frontier = $4
    returning 1
  ), written as (
    insert into ledger_entry
      (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, body, subtree_hashes)
    select $1, $2::bigint + r.ord - 1, $6, r.kind::smallint, r.entry_id, r.agent_id, r.action_type, r.decision::smallint,
      nullif(r.ref_id, ''), substr($12::bytea, (r.ord::int - 1) * 32 + 1, 32), r.body, ${SUBTREES}
    from head, rows from (${[7, 8, 9, 10, 11, 13, 22].map(column).join(", ")})
      with ordinality as r (entry_id, agent_id, action_type, decision, ref_id, body, kind, ord)
  ), escalated as (
    insert into escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq)
    select $1, e.id, e.agent_id, 1, e.digest, $2::bigint + e.position::int
    from head, rows from (${[15, 16, 17, 18].map(column).join(", ")}) as e (id, agent_id, digest, position)
  ), used as (
    update escalation set used_by = u.decision_id
    from head, rows from (${[19, 20].map(column).join(", ")}) as u (id, decision_id)
    where workspace_id = $1 and escalation_id = u.id
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    case when $21::text is not null then pg_notify('acp_log', $21) end as notified from head`,
};
