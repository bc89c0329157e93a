/**
 * Keeps what an issuer says of a person who signs in to a workspace. Returns their role, the one that an admin gave before that of
 * their groups; no row for a deactivated person. Parameters: workspace, new id, issuer, subject, email, display name, groups as a JSON
 * array, role by groups, encrypted refresh token in hexadecimal, epoch milliseconds of the sign-in and of the next check.
 */
export const upsertPerson = {
  name: "upsert-person",
  text: `insert into person as p (workspace_id, person_id, issuer, subject, email, display_name, groups, group_role, sealed_refresh,
        checked_at_ms, signed_in_at_ms, created_at_ms, recheck_at_ms)
      values ($1, $2, $3, $4, $5, $6, array(select json_array_elements_text($7::json)), $8, decode($9, 'hex'),
        $10, $10, $10, $11)
    on conflict (workspace_id, issuer, subject) do update set email = excluded.email, display_name = excluded.display_name,
      groups = excluded.groups, group_role = excluded.group_role, sealed_refresh = excluded.sealed_refresh,
      checked_at_ms = excluded.checked_at_ms, signed_in_at_ms = excluded.signed_in_at_ms, recheck_at_ms = excluded.recheck_at_ms,
      left_at_ms = null
      where p.deactivated_at_ms is null
    returning coalesce(p.role, p.group_role) as role`,
};
