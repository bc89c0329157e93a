import { BODY_AS_JSON } from "./sealed-body.ts";

/**
 * Condition for decisions in statements that read a stretch of the log in order. `kind in (0, 2)` would make the index
 * `ledger_entry_agent` eligible: without statistics, as after a restore or a burst of appends, the planner would choose it
 * and sort the whole stretch for every page.
 */
const IS_DECISION = "kind <> 1 and kind <> 3 and kind <> 4";
/** Condition for decisions that change trust and count in windows. */
export const IS_COUNTED = "kind <> 1 and kind <> 2 and kind <> 3 and kind <> 4";

const COLUMNS = `leaf_hash as "leafHash", body`;
/** Cuts a page, newest first, after a number of bytes of its entries; one surplus entry shows that the list continues. */
const newestByBytes = (rows: string): string =>
  `select ${COLUMNS} from (
    select *, sum(octet_length(body)) over newest - octet_length(body) as bytes_before, row_number() over newest as place
    from (${rows}) stretch window newest as (order by seq desc)
  ) page where bytes_before <= $6 or place = 2 order by page.seq desc`;

const STRETCH = "seq >= $2 and seq < $3 and ($4::smallint is null or decision = $4)";

/**
 * Conditions of a list beside those of a stretch: action type, beginning of the action type, tool, and the tool as it stands in a
 * body, which keeps most bodies from being parsed. Each may be null.
 */
const LISTED = `${STRETCH} and ($7::text is null or action_type = $7) and ($8::text is null or starts_with(action_type, $8))
  and ($9::text is null or case when strpos(body, $10) > 0 then ${BODY_AS_JSON} #>> '{action,tool}' = $9 else false end)`;

/**
 * Lists decisions between two indexes, newest first, by reading the primary key backwards until the page is full. Times
 * never go backwards within a log, so callers convert a time span to indexes first. Separate from the statement for one
 * agent because a plan with an optional agent would not use the agent's index.
 * Parameters: workspace, first index, index to stop before, decision or null, most rows, bytes, then those of `LISTED`.
 */
export const listDecisions = {
  name: "list-decisions",
  text: newestByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and ${IS_DECISION} and ${LISTED} order by seq desc limit $5`),
};

/** Lists the decisions of one agent from the index that begins with it. Parameters: as `listDecisions`, then the agent. */
export const listDecisionsOfAgent = {
  name: "list-decisions-of-agent",
  text: newestByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and kind in (0, 2) and ${LISTED} and agent_id = $11 order by seq desc limit $5`),
};

/**
 * Lists the decisions of one session from the index that begins with it. Parameters: as `listDecisions`, then the session and
 * the agent or null.
 */
export const listDecisionsOfSession = {
  name: "list-decisions-of-session",
  text: newestByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and ${IS_DECISION} and ${LISTED} and session_id = $11
      and ($12::text is null or agent_id = $12) order by seq desc limit $5`),
};

/**
 * Lists the decisions whose outcome has a status, from the index that begins with it. Parameters: as `listDecisions`, then the
 * status, the agent or null, and the session or null.
 */
export const listDecisionsByOutcome = {
  name: "list-decisions-by-outcome",
  text: newestByBytes(`select seq, leaf_hash, body from action_outcome o
    join ledger_entry e on e.workspace_id = o.workspace_id and e.seq = o.decision_seq
    where o.workspace_id = $1 and o.status = $11 and o.decision_seq >= $2 and o.decision_seq < $3
      and ${IS_DECISION} and ${LISTED} and ($12::text is null or e.agent_id = $12)
      and ($13::text is null or session_id = $13) order by o.decision_seq desc limit $5`),
};

/**
 * Reads the time of the last decision of each of some agents, each from the end of its part of the index; no row for an agent
 * without one. Parameters: workspace, agents.
 */
export const readLastTimes = {
  name: "read-last-times",
  text: `select agent_id as "agentId", at_ms::float8 as "atMs" from unnest($2::text[]) as asked (agent_id) cross join lateral (
      select at_ms from ledger_entry e
      where workspace_id = $1 and kind in (0, 2) and e.agent_id = asked.agent_id collate "C" order by e.seq desc limit 1
    ) last`,
};

/** Cuts a page after a number of bytes of its entries; the first entry always passes. */
const cutByBytes = (rows: string): string =>
  `select seq::float8 as seq, ${COLUMNS} from (
    select *, sum(octet_length(body)) over (order by seq) - octet_length(body) as bytes_before from (${rows}) stretch
  ) page where bytes_before < $6 order by page.seq`;

/**
 * Reads decisions between two indexes, oldest first.
 * Parameters: workspace, first index, index to stop before, decision or null, most rows, bytes after which nothing more is read.
 */
export const readDecisionsFrom = {
  name: "read-decisions-from",
  text: cutByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and ${IS_DECISION} and ${STRETCH} order by ledger_entry.seq limit $5`),
};

/** Reads the decisions of one agent from the index that begins with it. Parameters: as `readDecisionsFrom`, then the agent. */
export const readDecisionsOfAgentFrom = {
  name: "read-decisions-of-agent-from",
  text: cutByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and kind in (0, 2) and ${STRETCH} and agent_id = $7 order by ledger_entry.seq limit $5`),
};

/**
 * Conditions of a stretch with the entries about decisions: such an entry has a number from 16 on in `decision`, and belongs to an
 * allowed action.
 */
const FOLLOWED = `kind <> 1 and seq >= $2 and seq < $3
  and ($4::smallint is null or decision = $4 or ($4 = 1 and decision >= 16))`;

/** Reads decisions with their claims and outcomes between two indexes, oldest first. Parameters: as `readDecisionsFrom`. */
export const readFollowedFrom = {
  name: "read-followed-from",
  text: cutByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and ${FOLLOWED} order by ledger_entry.seq limit $5`),
};

/** Reads the same for one agent. Parameters: as `readDecisionsFrom`, then the agent. */
export const readFollowedOfAgentFrom = {
  name: "read-followed-of-agent-from",
  text: cutByBytes(`select seq, leaf_hash, body from ledger_entry
    where workspace_id = $1 and ${FOLLOWED} and agent_id = $7 order by ledger_entry.seq limit $5`),
};

/**
 * Finds the first index whose entry is later than a time, by binary search over the primary key: times never go backwards
 * within a log, so no index on time is needed. Returns null when no entry is later.
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
 * Reads a page of decisions, oldest first, as one row of columns joined by line feeds: the client parses it much faster than
 * a row per decision. Ids and normalised action types hold no line feed; an agent that acted for itself has an empty principal. All columns are null for an empty page.
 * Parameters: workspace, first index, index to stop before, most decisions.
 */
export const readHistoryPage = {
  name: "read-history-page",
  text: `select string_agg(seq::text, E'\n' order by seq) as seqs, string_agg(at_ms::text, E'\n' order by seq) as times,
      string_agg(agent_id, E'\n' order by seq) as agents, string_agg(action_type, E'\n' order by seq) as types,
      string_agg(coalesce(principal_id, ''), E'\n' order by seq) as principals,
      string_agg(decision::text, E'\n' order by seq) as decisions
    from (
      select seq, at_ms, agent_id, principal_id, action_type, decision from ledger_entry
      where workspace_id = $1 and seq >= $2 and seq < $3 and ${IS_COUNTED}
      order by ledger_entry.seq limit $4
    ) page`,
};

/**
 * Counts the decisions in a stretch of the log by agent, principal, action type and decision. Order is not guaranteed.
 * Parameters: workspace, first index, index to stop before.
 */
export const countHistory = {
  name: "count-history",
  text: `select agent_id as "agentId", principal_id as "principalId", action_type as "actionType", decision,
      count(*)::float8 as count
    from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and ${IS_COUNTED}
    group by agent_id, principal_id, action_type, decision`,
};

/**
 * Reads a stretch of the log with its bodies, oldest first, until a number of bytes is full; the first entry always passes.
 * Parameters: workspace, first index, index to stop before, most rows, bytes after which nothing more is read.
 */
export const readStretch = {
  name: "read-stretch",
  text: `select seq::float8 as seq, at_ms::float8 as "atMs", kind, entry_id as "entryId", action_type as "actionType", body from (
    select *, sum(octet_length(body)) over (order by seq) - octet_length(body) as bytes_before from (
      select seq, at_ms, kind, entry_id, action_type, body from ledger_entry
      where workspace_id = $1 and seq >= $2 and seq < $3 order by ledger_entry.seq limit $4
    ) stretch
  ) page where bytes_before < $5 order by page.seq`,
};

/** Reads the changes of a stretch of the log, oldest first. Parameters: workspace, first index, index to stop before, most rows. */
export const readChanges = {
  name: "read-changes",
  text: `select seq::float8 as seq, at_ms::float8 as "atMs", body from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 and kind = 1 order by ledger_entry.seq limit $4`,
};
