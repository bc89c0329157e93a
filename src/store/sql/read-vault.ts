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
  text: `select seq::float8 as seq, kind, leaf_hash as "leafHash", body from (
      select seq, kind, leaf_hash, body,
        sum(octet_length(body)) over (order by seq) - octet_length(body) as bytes_before
      from ledger_entry where workspace_id = $1 and seq >= $2 and seq < $3 order by seq limit $4
    ) page where bytes_before < $5 order by page.seq`,
};

/** Finds the index of a decision. Parameters: workspace, decision. No row: no such decision. */
export const findDecision = {
  name: "find-decision",
  text: "select seq::float8 as seq from ledger_entry where workspace_id = $1 and entry_id = $2 and kind in (0, 2)",
};

/**
 * Reads the last entry of a log that has no head. Parameter: workspace. No row: no such workspace, or its log has a head; a row
 * of nulls: no entry either.
 */
export const readEndWithoutHead = {
  name: "read-end-without-head",
  text: `select e.seq::float8 as seq, e.at_ms::float8 as "atMs", e.leaf_hash as "leafHash", e.body
    from workspace w left join lateral (
      select seq, at_ms, leaf_hash, body from ledger_entry where workspace_id = w.workspace_id
      order by ledger_entry.seq desc limit 1
    ) e on true
    where w.workspace_id = $1 and not exists (select from ledger_head h where h.workspace_id = w.workspace_id)`,
};

/** Reads leaf hashes between two indexes, oldest first. Parameters: workspace, first index, index to stop before. */
export const readLeafHashes = {
  name: "read-leaf-hashes",
  text: `select seq::float8 as seq, leaf_hash as "leafHash" from ledger_entry
    where workspace_id = $1 and seq >= $2 and seq < $3 order by ledger_entry.seq`,
};

/** Stores the head of a log, unless there is one. Parameters: workspace, size, frontier, time of the last entry. */
export const insertHead = {
  name: "insert-head",
  text: `insert into ledger_head (workspace_id, seq, frontier, last_at_ms) values ($1, $2, $3, $4) on conflict do nothing`,
};

/** Reads the sizes of all logs. */
export const readLogSizes = {
  name: "read-log-sizes",
  text: 'select workspace_id as "workspaceId", seq::float8 as size from ledger_head order by workspace_id',
};
