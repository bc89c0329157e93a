/**
 * Reads the names of keys, credentials and people; ids without a name are missing. A key is called by its owner, if it has one. A
 * person is called as an admin calls them, else as their issuer does. Parameters: workspace, ids.
 */
export const readActorNames = {
  name: "read-actor-names",
  text: `select k.key_id as id, coalesce(p.name, p.email, p.display_name, k.owner, k.name) as name
      from api_key k left join person p on p.workspace_id = k.workspace_id and p.actor = k.owner
      where k.workspace_id = $1 and k.key_id = any($2::text[])
    union all
    select id, sealed ->> 'text' from authority
      where workspace_id = $1 and id = any($2::text[]) and kind = 'credential'
    union all
    select actor, coalesce(name, email, display_name) from person where workspace_id = $1 and actor = any($2::text[])
    union all
    select person_id, coalesce(name, email, display_name) from person
      where workspace_id = $1 and person_id = any($2::text[]) and actor <> person_id`,
};
