/** Reads the lists of a workspace without the values of large ones, by name. Parameter: workspace. */
export const readLists = {
  name: "read-lists",
  text: `select name, kind, digest, base_digest as "baseDigest", added, removed,
      created_at_ms::float8 as "createdAtMs", updated_at_ms::float8 as "updatedAtMs"
    from named_list where workspace_id = $1 order by name`,
};

/** Reads what changed in a list since its base. Parameters: workspace, name. No row: no such list. */
export const readListTail = {
  name: "read-list-tail",
  text: `select base_digest as "baseDigest", added, removed from named_list where workspace_id = $1 and name = $2`,
};

/** Reads a part of the values that are stored under a digest, a JSON array. Parameters: workspace, digest, part from 0. */
export const readListContent = {
  name: "read-list-content",
  text: `select values, is_last as "isLast" from list_content where workspace_id = $1 and digest = $2 and part = $3`,
};

/**
 * Writes a part of the values that are stored under a digest. Another process may have written the same. Parameters: workspace,
 * digest, part, values, whether it is the last.
 */
export const writeListContent = {
  name: "write-list-content",
  text: `insert into list_content (workspace_id, digest, part, values, is_last)
    values ($1, $2, $3, $4, $5) on conflict do nothing`,
};

/** Tells whether all values under a digest are stored: their writer may have ended between two parts. Parameters: workspace, digest. */
export const readIsWhole = {
  name: "read-list-content-whole",
  text: `select coalesce(count(*) = max(part) filter (where is_last) + 1, false) as "isWhole"
    from list_content where workspace_id = $1 and digest = $2`,
};

/**
 * Removes the values under every digest that is no list's base. MUST be called while the end of the log is locked: a list that is
 * about to take them as its base is not seen. Parameter: workspace.
 */
export const removeUnusedContent = {
  name: "remove-unused-list-content",
  text: `delete from list_content where workspace_id = $1 and digest not in
    (select base_digest from named_list where workspace_id = $1 and base_digest is not null)`,
};

/** Reads a list with the parts of the values under its base, as of one moment. Parameters: workspace, name. */
export const readList = {
  name: "read-list",
  text: `select name, kind, digest, base_digest as "baseDigest", added, removed,
      created_at_ms::float8 as "createdAtMs", updated_at_ms::float8 as "updatedAtMs",
      array(select values from list_content c where c.workspace_id = l.workspace_id and c.digest = l.base_digest order by part) as parts
    from named_list l where workspace_id = $1 and name = $2`,
};

/**
 * Writes the row of a list. Parameters: workspace, name, kind, digest, digest of its base, values added and removed since, time in
 * epoch milliseconds.
 */
export const writeList = {
  name: "write-list",
  text: `insert into named_list
      (workspace_id, name, kind, digest, base_digest, added, removed, created_at_ms, updated_at_ms)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $8)
    on conflict (workspace_id, name) do update set kind = excluded.kind, digest = excluded.digest,
      base_digest = excluded.base_digest, added = excluded.added, removed = excluded.removed,
      updated_at_ms = excluded.updated_at_ms`,
};

/** Deletes the row of a list. Parameters: workspace, name. */
export const deleteListRow = {
  name: "delete-list",
  text: "delete from named_list where workspace_id = $1 and name = $2",
};
