/**
 * Reads the names of keys, credentials and people; ids without a name are missing. A key is called by its owner, if it has one.
 * Parameters: workspace, ids, issuers of people, their subjects in the same order.
 */
export const readActorNames = {
  name: "read-actor-names",
  text: `select k.key_id as id, coalesce(p.email, p.display_name, k.owner, k.name) as name
      from api_key k left join person p
        on p.workspace_id = k.workspace_id and k.owner = 'oidc:' || p.issuer || '|' || p.subject
      where k.workspace_id = $1 and k.key_id = any($2::text[])
    union all
    select id, sealed ->> 'text' from authority
      where workspace_id = $1 and id = any($2::text[]) and kind = 'credential'
    union all
    select 'oidc:' || p.issuer || '|' || p.subject, coalesce(p.email, p.display_name)
      from person p join unnest($3::text[], $4::text[]) as given (issuer, subject)
        on p.issuer = given.issuer and p.subject = given.subject
      where p.workspace_id = $1`,
};
