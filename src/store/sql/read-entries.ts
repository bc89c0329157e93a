const COLUMNS = `seq::float8 as seq, at_ms::float8 as at, kind, entry_id as "entryId", agent_id as "agentId",
  action_type as "actionType", decision, ref_id as "refId"`;

const headColumn = (column: string): string => `(select ${column} from ledger_head where workspace_id = $1)`;

/**
 * Reads the log from an index on, oldest first, for a replica that catches up. Bodies of decisions stay where they are,
 * since what the fold needs of a decision is in its columns. The entry that the log ends with has the head's frontier:
 * one statement sees one state of the database, so nobody has to hash leaves to know where the log stands.
 * The order names the table's column: `seq` alone would be the number selected under that name, which no index holds.
 * Parameters: workspace, first index, most rows.
 */
export const readEntriesFrom = {
  name: "read-entries-from",
  text: `select ${COLUMNS}, case when kind <> 0 then body end as body,
      case when seq = ${headColumn("seq")} - 1 then ${headColumn("frontier")} end as frontier
    from ledger_entry where workspace_id = $1 and seq >= $2 order by ledger_entry.seq limit $3`,
};

/** Reads the entries of some ids with their bodies. Parameters: workspace, ids. Order is not guaranteed. */
export const readEntriesById = {
  name: "read-entries-by-id",
  text: `select kind, entry_id as "entryId", leaf_hash as "leafHash", body
    from ledger_entry where workspace_id = $1 and entry_id = any($2::text[])`,
};

/** Reads the digest of a tool version. Parameters: workspace, name, version. No row: no such version. */
export const readToolVersionDigest = {
  name: "read-tool-version-digest",
  text: "select digest from tool_version where workspace_id = $1 and name = $2 and version = $3",
};

/** Locks the end of the log until the transaction ends. Parameter: workspace. No row: no such workspace. */
export const lockHead = {
  name: "lock-head",
  text: "select seq::float8 as seq from ledger_head where workspace_id = $1 for update",
};
