/**
 * Reads what keys and invites say of people: the number of keys that they own and that open, the last use of any, and the end of
 * the open invite. Parameters: workspace, ids of people, epoch milliseconds.
 */
export const readPersonFacts = {
  name: "read-person-facts",
  text: `select p.person_id as id, k.open_keys, k.key_used_at_ms, i.expires_at_ms as invited_until_ms
    from person p
      cross join lateral (
        select count(*) filter (
            where k.revoked_at_ms is null and coalesce(k.expires_at_ms > $3::bigint, true)
          )::int as open_keys,
          max(k.last_used_at_ms) as key_used_at_ms
        from api_key k where k.workspace_id = p.workspace_id and k.owner = p.actor
      ) k
      left join person_invite i
        on i.workspace_id = p.workspace_id and i.person_id = p.person_id and i.expires_at_ms > $3::bigint
    where p.workspace_id = $1 and p.person_id = any($2::text[])`,
};
