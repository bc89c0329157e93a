/**
 * Takes people whose memberships are due to be asked again, for as long as one attempt may take: no other process asks for them
 * meanwhile. `is_used` is false for a person whose sign-ins are all over. Parameters: epoch milliseconds, those of the next attempt,
 * the number of people.
 */
export const takeRechecks = {
  name: "take-rechecks",
  text: `update person p set recheck_at_ms = $2 from (
      select workspace_id, person_id from person
        where recheck_at_ms <= $1 and sealed_refresh is not null and deactivated_at_ms is null
        order by recheck_at_ms limit $3 for update skip locked
    ) due
    where p.workspace_id = due.workspace_id and p.person_id = due.person_id
    returning p.workspace_id, p.actor, p.subject, p.sealed_refresh, exists (
        select from sign_in s where s.workspace_id = p.workspace_id and s.holder = p.actor and s.expires_at_ms > $1
      ) as is_used`,
};
