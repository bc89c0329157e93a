/**
 * Finds the first index whose entry is later than a time, by binary search over the primary key: times never go
 * backwards within a log, so no index on time is needed. Gives null when no entry is later.
 * Parameters: workspace, time in epoch milliseconds, size of the log.
 */
export const findFirstAfter = {
  name: "find-first-after",
  text: `with recursive search (low, high) as (
    select 0::bigint, $3::bigint
    union all
    select
      case when e.at_ms > $2::bigint then s.low else (s.low + s.high) / 2 + 1 end,
      case when e.at_ms > $2::bigint then (s.low + s.high) / 2 else s.high end
    from search s join ledger_entry e on e.workspace_id = $1 and e.seq = (s.low + s.high) / 2
    where s.low < s.high
  )
  select low::float8 as seq from search where low >= high limit 1`,
};

/**
 * The times of actions since an index, one row for each agent, action type and decision, in no order: the reader sorts
 * numbers faster than the server sorts rows. Grouping there makes a row per group of what would be a row per action.
 * Parameters: workspace, first index, index to stop before.
 */
export const readHistory = {
  name: "read-history",
  text: `select agent_id as "agentId", action_type as "actionType", decision,
      string_agg(at_ms::text, ',') as times
    from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and kind = 0
    group by agent_id, action_type, decision`,
};
