/** Indexes that one reading looks through, so that no statement runs long even where all of them are changes. */
const SPAN = 200_000;

// Word by word the condition of the index `ledger_entry_event`, without which the planner could not use it.
const MAY_BE_EVENT = "(kind = 1 or decision >= 2)";

/**
 * Reads the entries that a webhook may tell of, oldest first, and how far the log was looked through: to `end`, which is
 * at most `size`, the size of the log in the same snapshot. Allowed actions are not touched, since the index does not hold
 * them. A change may be given that only looks like a wanted one, for its type is searched as text.
 * Parameters: workspace, first index, decisions, texts of which a change has one, most rows.
 * Without events one row that has no `seq`; no row: no such workspace.
 */
export const readWebhookEvents = {
  name: "read-webhook-events",
  text: `select h.seq::float8 as size, least(h.seq, $2::bigint + ${SPAN})::float8 as "end", e.seq::float8 as seq, e.body
    from ledger_head h left join lateral (
      select seq, body from ledger_entry
      where workspace_id = $1 and seq >= $2::bigint and seq < least(h.seq, $2::bigint + ${SPAN}) and ${MAY_BE_EVENT}
        and (decision = any($3::smallint[])
          or (kind = 1 and exists (select from unnest($4::text[]) as type (text) where strpos(body, type.text) > 0)))
      order by seq limit $5
    ) e on true
    where h.workspace_id = $1 order by e.seq`,
};
