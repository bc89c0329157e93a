/**
 * Reads what the log holds of the tree at some leaves: each leaf's hash, and the roots of the perfect subtrees that it
 * completes. One look-up by primary key for each index. Parameters: workspace, indexes. Order is not guaranteed.
 */
export const readTreeHashes = {
  name: "read-tree-hashes",
  text: `select seq::float8 as seq, leaf_hash as "leafHash", subtree_hashes as "subtreeHashes"
    from ledger_entry where workspace_id = $1 and seq = any($2::bigint[])`,
};

/**
 * Reads entries as they were sealed, oldest first, until the bodies in their rows together have some number of bytes: always
 * the first, and the one that passes the number. The lengths are known without reading the bodies that lie beside the table.
 * Parameters: workspace, first index, index to stop before, most rows, bytes.
 */
export const readSealedEntries = {
  name: "read-sealed-entries",
  text: `select seq::float8 as seq, leaf_hash as "leafHash", body from (
      select seq, leaf_hash, body,
        sum(octet_length(body)) over (order by seq) - octet_length(body) as bytes_before
      from ledger_entry where workspace_id = $1 and seq >= $2 and seq < $3 order by seq limit $4
    ) page where bytes_before < $5 order by page.seq`,
};

/** Finds the index of a decision. Parameters: workspace, decision. No row: no such decision. */
export const findDecision = {
  name: "find-decision",
  text: "select seq::float8 as seq from ledger_entry where workspace_id = $1 and entry_id = $2 and kind = 0",
};
