const COLUMNS = `seq::float8 as seq, at_ms::float8 as at, kind, entry_id as "entryId", agent_id as "agentId",
  principal_id as "principalId", action_type as "actionType", decision, ref_id as "refId"`;

const headColumn = (column: string): string => `(select ${column} from ledger_head where workspace_id = $1)`;

/**
 * Reads the log from an index on, oldest first, for a replica that catches up. Omits the bodies of decisions, because folding a
 * decision needs only its columns. The last entry of the log carries the head's frontier: one statement sees one state of the
 * database, so the reader need not hash leaves. A row beyond the head was not appended. The order names the table's column; the
 * selected `seq` is a float, which no index holds.
 * Parameters: workspace, first index, most rows.
 */
export const readEntriesFrom = {
  name: "read-entries-from",
  text: `select ${COLUMNS}, case when kind in (1, 3, 4) then body end as body,
      case when seq = ${headColumn("seq")} - 1 then ${headColumn("frontier")} end as frontier
    from ledger_entry where workspace_id = $1 and seq >= $2 and seq < ${headColumn("seq")}
    order by ledger_entry.seq limit $3`,
};

/**
 * Reads the columns that the mirror keeps, from an index on, oldest first; without the bodies, which are large.
 * Parameters: workspace, first index, most entries.
 */
export const readMirrored = {
  name: "read-mirrored",
  text: `select seq::float8 as seq, at_ms::float8 as at, kind, agent_id as "agentId", principal_id as "principalId",
      action_type as "actionType", decision, leaf_hash as "leafHash"
    from ledger_entry where workspace_id = $1 and seq >= $2 order by ledger_entry.seq limit $3`,
};

/** Reads the entries with some ids, bodies included. Parameters: workspace, ids. Order is not guaranteed. */
export const readEntriesById = {
  name: "read-entries-by-id",
  text: `select seq::float8 as seq, at_ms::float8 as "atMs", kind, entry_id as "entryId", agent_id as "agentId", decision,
      leaf_hash as "leafHash", body
    from ledger_entry where workspace_id = $1 and entry_id = any($2::text[])`,
};

/**
 * Reads the claims and outcomes of some decisions. Most decisions have neither, which the table of outcomes tells without a look into
 * the log. Parameters: workspace, decisions. Order is not guaranteed.
 */
export const readFollowUpRows = {
  name: "read-follow-up-rows",
  text: `select e.seq::float8 as seq, e.entry_id as "entryId", e.leaf_hash as "leafHash", e.body
    from action_outcome o cross join unnest(array['clm', 'out', 'stl']) as prefix
    join ledger_entry e on e.workspace_id = $1 and e.entry_id = (prefix || substr(o.decision_id, 4)) collate "C"
    where o.workspace_id = $1 and o.decision_id = any($2::text[])`,
};

/** Reads the action types of decisions. Parameters: workspace, indexes. Order is not guaranteed. */
export const readActionTypes = {
  name: "read-action-types",
  text: `select seq::float8 as seq, action_type as "actionType" from ledger_entry
    where workspace_id = $1 and seq = any($2::bigint[])`,
};

/** Reads the body of a change. Parameters: workspace, index. No row: the entry is a decision, or beyond the log. */
export const readChange = {
  name: "read-change",
  text: "select body from ledger_entry where workspace_id = $1 and seq = $2 and kind = 1",
};

/** Reads the digest of a tool version. Parameters: workspace, name, version. No row: no such version. */
export const readToolVersionDigest = {
  name: "read-tool-version-digest",
  text: "select digest from tool_version where workspace_id = $1 and name = $2 and version = $3",
};

/** Reads the size of a log. Parameter: workspace. No row: no such workspace. */
export const readLogSize = {
  name: "read-log-size",
  text: "select seq::float8 as seq from ledger_head where workspace_id = $1",
};

/** Locks the end of a log until the transaction ends, and reads its size. Parameter: workspace. No row: no such workspace. */
export const lockHead = {
  name: "lock-head",
  text: "select seq::float8 as seq from ledger_head where workspace_id = $1 for update",
};

/** Reads the server's clock in epoch milliseconds. */
export const readClock = {
  name: "read-clock",
  text: "select (extract(epoch from clock_timestamp()) * 1000)::float8 as now",
};
