/** Tests whether an API key is revoked, or has expired by a time. Parameters: workspace, key, epoch milliseconds. No row: no such key. */
export const readKeyEnd = {
  name: "read-key-end",
  text: `select revoked_at_ms is not null or coalesce(expires_at_ms <= $3::bigint, false) as ended
    from api_key where key_id = $2 and workspace_id = $1`,
};
