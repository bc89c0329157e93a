/**
 * Reads the columns that a mirror keeps of the entries from an index on, oldest first; not the bodies, which are large.
 * Parameters: workspace, first index, most entries.
 */
export const readMirrored = {
  name: "read-mirrored",
  text: `select seq::float8 as seq, at_ms::float8 as at, kind, agent_id as "agentId", action_type as "actionType", decision,
      leaf_hash as "leafHash"
    from ledger_entry where workspace_id = $1 and seq >= $2 order by ledger_entry.seq limit $3`,
};
