/**
 * Follows keys to those who made them: a row for each of some ids itself, and for every maker up the line, with the owner of that
 * key. `owned` is true for a maker from whom a key with an owner lies before. The maker of a credential or a federation token is in
 * the entry that created it. Keys are found whatever their workspace, because the first key of a workspace is made from another.
 * Parameters: workspace, ids as a JSON array.
 */
export const readMakers = {
  name: "read-makers",
  text: `with recursive made (start, id, owned) as (
      select given collate "C", given collate "C", false from json_array_elements_text($2::json) as given
      union
      select m.start, maker.id collate "C", m.owned or maker.owner is not null
      from made m cross join lateral (
        select k.created_by as id, k.owner from api_key k where k.key_id = m.id
        union all
        select l.body::json ->> 'by', null from authority a
          join ledger_entry l on l.workspace_id = a.workspace_id and l.seq = a.created_seq
          where a.workspace_id = $1 and a.id = m.id
      ) maker
      where maker.id is not null
    )
    select m.start, m.id, m.owned, k.owner from made m left join api_key k on k.key_id = m.id`,
};

/** A row of `readMakers`. */
export interface MakerRow {
  readonly start: string;
  readonly id: string;
  readonly owned: boolean;
  readonly owner: string | null;
}
