/*
 * Appends a batch of decisions, if the log still ends where the batch was decided.
 *
 * One statement, so that one round trip decides, writes and commits. The head's row is the only lock: UPDATE waits for a
 * writer on another replica, then looks at the head again and matches nothing, and with it the INSERT writes nothing. The
 * frontier is compared beside the size, since it stands for every entry before: a batch that was sent behind one that
 * gave way must not match because somebody else appended as many.
 * Columns come as texts joined by line feeds, because ids hold none: an array literal would have to be quoted value by
 * value by node-postgres and unquoted again by the server. Bodies, which are long, come as bytes with their places: to look
 * for where each ends would cost the server half as much again as to store it.
 *
 * Parameters: workspace, expected size, count, frontier, time of the batch, entry ids, agent ids, action types,
 * decisions, refs (each joined by line feeds; an empty ref means none), leaf hashes (32 bytes each), bodies one after the
 * other in UTF-8, the roots of the perfect subtrees that the leaves complete (32 bytes each, in the order of completion),
 * expected frontier; and unless it is one entry, where the bodies begin (in bytes, the first at 1) and their lengths, 0
 * for one that lies in a pack; the packs one after the other, and which entry of the batch each begins with (from 0), where
 * it begins and its length (joined by line feeds, null for none).
 * Gives one row `{now}`, the server's clock in epoch milliseconds, or no row when another writer was first.
 */
const HEAD = `
  update ledger_head set seq = $2::bigint + $3::int, frontier = $4, last_at_ms = $5
  where workspace_id = $1 and seq = $2::bigint and frontier = $14
  returning 1`;

const bits = (number: string): string => `bit_count((${number})::bit(64))`;

// A tree of n leaves holds n minus bits(n) perfect subtrees of two leaves or more, each completed by one leaf. So leaf i
// completes 1 + bits(i) - bits(i + 1) of them, and where their roots begin follows from the sizes of the trees before.
const SUBTREES = `nullif(substr($13::bytea,
  32 * (r.ord - 1 + ${bits("$2::bigint")} - ${bits("$2::bigint + r.ord - 1")})::int + 1,
  32 * (1 + ${bits("$2::bigint + r.ord - 1")} - ${bits("$2::bigint + r.ord")})::int), '')`;

const INTO = `
  insert into ledger_entry
    (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, ref_id, leaf_hash, body, subtree_hashes)`;

const INSERT = `${INTO}
  select $1, $2::bigint + r.ord - 1, $5, 0, r.entry_id, r.agent_id, r.action_type, r.decision::smallint,
    nullif(r.ref_id, ''), substr($11::bytea, (r.ord::int - 1) * 32 + 1, 32),
    case when r.body_length <> '0' then convert_from(substr($12::bytea, r.body_start::int, r.body_length::int), 'UTF8') end,
    ${SUBTREES}
  from head, rows from (
    string_to_table($6, E'\\n'), string_to_table($7, E'\\n'), string_to_table($8, E'\\n'),
    string_to_table($9, E'\\n'), string_to_table($10, E'\\n'), string_to_table($15, E'\\n'), string_to_table($16, E'\\n')
  ) with ordinality as r (entry_id, agent_id, action_type, decision, ref_id, body_start, body_length, ord)`;

const PACK = `
  insert into ledger_pack (workspace_id, seq, bodies)
  select $1, $2::bigint + p.first::int, substr($17::bytea, p.start::int, p.length::int)
  from head, rows from (string_to_table($18, E'\\n'), string_to_table($19, E'\\n'), string_to_table($20, E'\\n'))
    as p (first, start, length)`;

const NOW = "(extract(epoch from clock_timestamp()) * 1000)::float8 as now";

/**
 * The plain form for one entry, as a caller makes it who waits alone: taking columns apart that hold one value each costs
 * a seventh of the statement.
 */
export const appendEntry = {
  name: "append-entry",
  text: `with head as (${HEAD}) ${INTO}
  select $1, $2::bigint, $5, 0, $6::text, $7::text, $8::text, $9::text::smallint, nullif($10::text, ''), $11::bytea,
    $12::text, nullif($13::bytea, '')
  from head returning ${NOW}`,
};

/** The plain form: nothing escalates and no approval is used up. */
export const appendEntries = {
  name: "append-entries",
  text: `with head as (${HEAD}), written as (${INSERT}), packed as (${PACK}) select ${NOW} from head`,
};

/**
 * The form for a batch in which an action escalates or an approval is used up. Further parameters: escalation ids,
 * their agents, action digests and positions in the batch (from 0), ids of the used escalations, the decisions that
 * used them (joined by line feeds, null for none), the wake-up for other replicas.
 */
export const appendEscalations = {
  name: "append-escalations",
  text: `with head as (${HEAD}), written as (${INSERT}), packed as (${PACK}),
  escalated as (
    insert into escalation (workspace_id, escalation_id, agent_id, status, action_digest, created_seq)
    select $1, e.id, e.agent_id, 1, e.digest, $2::bigint + e.position::int
    from head, rows from (
      string_to_table($21, E'\\n'), string_to_table($22, E'\\n'), string_to_table($23, E'\\n'), string_to_table($24, E'\\n')
    ) as e (id, agent_id, digest, position)
  ),
  used as (
    update escalation set used_by = u.decision_id
    from head, rows from (string_to_table($25, E'\\n'), string_to_table($26, E'\\n')) as u (id, decision_id)
    where workspace_id = $1 and escalation_id = u.id
  )
  select ${NOW}, pg_notify('acp_log', $27) from head`,
};
