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
 * created: ids, agents, action digests, positions in the batch from 0, expiries, numbers of asks, keys that asked (each joined
 * by commas), positions of the last ask that joined (joined, null for none); the earlier escalations that change: ids, the
 * decisions that use them up, the escalations that replace them, numbers of asks, keys, positions of the last ask (joined, null
 * for none; empty where nothing changes); the wake-up for other replicas, null when nobody waits; kinds of the entries (joined);
 * the sessions of the actions (joined, empty for none; null when there are none).
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
      (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, body, subtree_hashes,
        session_id)
    select $1, $2::bigint + r.ord - 1, $6, r.kind::smallint, r.entry_id, r.agent_id, r.action_type, r.decision::smallint,
      nullif(r.ref_id, ''), substr($12::bytea, (r.ord::int - 1) * 32 + 1, 32), r.body, ${SUBTREES},
      nullif(r.session_id, '')
    from head, rows from (${[7, 8, 9, 10, 11, 13, 30, 31].map(column).join(", ")})
      with ordinality as r (entry_id, agent_id, action_type, decision, ref_id, body, kind, session_id, ord)
  ), escalated as (
    insert into escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq, expires_at_ms, asked,
      asked_by, updated_seq)
    select $1, e.id, e.agent_id, 1, e.digest, $2::bigint + e.position::int, e.expires_at_ms::bigint, e.asked::int,
      string_to_array(e.keys, ','), $2::bigint + nullif(e.last_ask, '')::int
    from head, rows from (${[15, 16, 17, 18, 19, 20, 21, 22].map(column).join(", ")})
      as e (id, agent_id, digest, position, expires_at_ms, asked, keys, last_ask)
  ), changed as (
    update escalation x set
      used_by = coalesce(nullif(u.used_by, ''), x.used_by),
      used_at_ms = case when nullif(u.used_by, '') is null then x.used_at_ms else $6 end,
      replaced_by = coalesce(nullif(u.replaced_by, ''), x.replaced_by),
      asked = x.asked + u.asked::int,
      asked_by = array(
        select distinct key from unnest(x.asked_by || string_to_array(nullif(u.keys, ''), ',')) as key order by key
      ),
      updated_seq = coalesce($2::bigint + nullif(u.last_ask, '')::int, x.updated_seq)
    from head, rows from (${[23, 24, 25, 26, 27, 28].map(column).join(", ")})
      as u (id, used_by, replaced_by, asked, keys, last_ask)
    where x.workspace_id = $1 and x.escalation_id = u.id
  )
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    case when $29::text is not null then pg_notify('acp_log', $29) end as notified from head`,
};
