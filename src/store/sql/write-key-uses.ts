/**
 * Notes the last uses of API keys; a later one that another process noted stays. Parameters: ids of keys, epoch milliseconds in the same
 * order.
 */
export const writeKeyUses = {
  name: "write-key-uses",
  text: `update api_key k set last_used_at_ms = u.at_ms
    from unnest($1::text[], $2::bigint[]) as u (key_id, at_ms)
    where k.key_id = u.key_id and coalesce(k.last_used_at_ms, 0) < u.at_ms`,
};
