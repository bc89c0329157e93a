/**
 * Reads the hashes of some leaves, and the roots of the perfect subtrees that each completes. One primary-key look-up per
 * index. Parameters: workspace, indexes. Order is not guaranteed.
 */
export const readTreeHashes = {
  name: "read-tree-hashes",
  text: `select seq::float8 as seq, leaf_hash as "leafHash", subtree_hashes as "subtreeHashes"
    from ledger_entry where workspace_id = $1 and seq = any($2::bigint[])`,
};

/**
 * Reads entries as sealed, oldest first, until the bodies of the page reach a number of bytes: the first entry always, and
 * the entry that exceeds the number. PostgreSQL knows the lengths without reading bodies that are stored out of line.
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
  text: "select seq::float8 as seq from ledger_entry where workspace_id = $1 and entry_id = $2 and kind <> 1",
};
