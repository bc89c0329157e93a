/**
 * Takes people whose memberships are due to be asked again, for as long as one attempt may take: no other process asks for them
 * meanwhile. Those of another issuer are not asked. `is_used` is false for a person whose sign-ins are all over and who owns no key that
 * opens. Parameters: epoch milliseconds, those of the next attempt, the number of people, the issuer.
 */
export const takeRechecks = {
  name: "take-rechecks",
  text: `update person p set recheck_at_ms = $2 from (
      select workspace_id, person_id from person
        where recheck_at_ms <= $1 and sealed_refresh is not null and deactivated_at_ms is null and issuer = $4
        order by recheck_at_ms limit $3 for update skip locked
    ) due
    where p.workspace_id = due.workspace_id and p.person_id = due.person_id
    returning p.workspace_id, p.actor, p.subject, p.sealed_refresh, p.checked_at_ms, exists (
        select from sign_in s where s.workspace_id = p.workspace_id and s.holder = p.actor and s.expires_at_ms > $1
      ) or exists (
        select from api_key k where k.workspace_id = p.workspace_id and k.owner = p.actor and k.revoked_at_ms is null
          and coalesce(k.expires_at_ms > $1, true)
      ) as is_used`,
};
