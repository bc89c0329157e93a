/** Entries of a pack at most: a hundred bytes each, and one is read in a tenth of a millisecond. */
export const PACK_ENTRIES = 64;

/** An entry whose body lies in its row, or with its neighbours in a pack. */
export interface PackedRow {
  readonly seq: number;
  readonly body: string | null;
  /** The first entry of the pack; null where the body lies in the row. */
  readonly packSeq: number | null;
  /** With one row of each pack; null with the others. */
  readonly pack: Buffer | null;
}

/** What of an entry `e` beside its index tells its body. */
export const BODY_COLUMNS = `e.body, p.seq::float8 as "packSeq",
  case when row_number() over (partition by p.seq order by e.seq) = 1 then p.bodies end as pack`;

/** The pack of an entry `e`, none where its body lies in the row. */
export const WITH_PACK = `left join lateral (
    select seq, bodies from ledger_pack p
    where e.body is null and p.workspace_id = $1 and p.seq <= e.seq and p.seq > e.seq - ${PACK_ENTRIES}
    order by p.seq desc limit 1
  ) p on true`;
