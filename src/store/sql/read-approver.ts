/**
 * Reads the owner of a key, and the groups of a person. The key's row has the owner, and the groups of the person that it names; a person
 * who signed in has groups alone. Parameters: workspace, id of a key or name of a person. No row: a key without an owner, or a person who
 * never signed in.
 */
export const readApprover = {
  name: "read-approver",
  text: `select k.owner, p.issuer, to_json(p.groups) as groups, p.checked_at_ms::float8 as "checkedAtMs"
    from (select coalesce((select owner from api_key where workspace_id = $1 and key_id = $2), $2) as name) given
      left join api_key k on k.workspace_id = $1 and k.key_id = $2
      left join person p on p.workspace_id = $1 and given.name = 'oidc:' || p.issuer || '|' || p.subject`,
};

/** A row of `readApprover`. */
export interface ApproverRow {
  /** Owner of a key; null for a key without one, and for a person. */
  readonly owner: string | null;
  /** The issuer of the person; null for one who never signed in, and for any other owner. */
  readonly issuer: string | null;
  readonly groups: readonly string[] | null;
  /** Time at which the issuer named the groups, epoch milliseconds; null if it was never asked. */
  readonly checkedAtMs: number | null;
}
