/** Ids of the entries that seal a signing key: the log holds each at most once, since ids are unique. */
export const signingKeyEntryId = {
  added: (keyId: string): string => `sgk_added_${keyId}`,
  retired: (keyId: string): string => `sgk_retired_${keyId}`,
};

/**
 * Reads the entries that seal signing keys, in the order of the log: its first, and those with an id of their own. Parameters:
 * workspace, size of the log.
 */
export const readSigningKeys = {
  name: "read-signing-keys",
  text: `select seq::float8 as seq, "atMs", "leafHash", body from (
      select seq, at_ms::float8 as "atMs", leaf_hash as "leafHash", body from ledger_entry
      where workspace_id = $1 and seq = 0
      union all
      select seq, at_ms::float8, leaf_hash, body from ledger_entry
      where workspace_id = $1 and entry_id >= 'sgk_' and entry_id < 'sgk\`' and kind = 1 and seq > 0 and seq < $2::bigint
    ) sealed order by sealed.seq`,
};

/**
 * Lists the workspaces whose log neither begins with a key nor seals it later. Parameters: id of the key, id of the entry that
 * would seal it.
 */
export const workspacesWithoutKey = {
  name: "workspaces-without-key",
  text: `select h.workspace_id as "workspaceId" from ledger_head h
    where not exists (select from ledger_entry e where e.workspace_id = h.workspace_id and e.entry_id = $2)
      and not exists (
        select from ledger_entry e where e.workspace_id = h.workspace_id and e.seq = 0 and strpos(e.body, $1) > 0)
    order by 1`,
};

/**
 * Lists the workspaces whose log holds a key and has not retired it. Parameters: id of the key, ids of the entries that would
 * seal it and retire it.
 */
export const workspacesWithKey = {
  name: "workspaces-with-key",
  text: `select h.workspace_id as "workspaceId" from ledger_head h
    where not exists (select from ledger_entry e where e.workspace_id = h.workspace_id and e.entry_id = $3)
      and exists (
        select from ledger_entry e where e.workspace_id = h.workspace_id
          and (e.entry_id = $2 or (e.seq = 0 and strpos(e.body, $1) > 0)))
    order by 1`,
};
