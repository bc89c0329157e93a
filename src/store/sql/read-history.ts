import { IS_DECISION } from "./is-decision.ts";

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
 * A page of decisions, oldest first, as one row of columns joined by line feeds, which reads in a third of the time that a
 * row for each takes; ids and normalised action types hold no line feed. All columns are null when there is none.
 * Parameters: workspace, first index, index to stop before, most decisions.
 */
export const readHistoryPage = {
  name: "read-history-page",
  text: `select string_agg(seq::text, E'\n' order by seq) as seqs, string_agg(at_ms::text, E'\n' order by seq) as times,
      string_agg(agent_id, E'\n' order by seq) as agents, string_agg(action_type, E'\n' order by seq) as types,
      string_agg(decision::text, E'\n' order by seq) as decisions
    from (
      select seq, at_ms, agent_id, action_type, decision from ledger_entry
      where workspace_id = $1 and seq >= $2 and seq < $3 and ${IS_DECISION}
      order by ledger_entry.seq limit $4
    ) page`,
};

/**
 * How many decisions a stretch of the log holds of each agent, action type and decision, in no order.
 * Parameters: workspace, first index, index to stop before.
 */
export const countHistory = {
  name: "count-history",
  text: `select agent_id as "agentId", action_type as "actionType", decision, count(*)::float8 as count
    from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and ${IS_DECISION}
    group by agent_id, action_type, decision`,
};
