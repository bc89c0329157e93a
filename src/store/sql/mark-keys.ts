import type { Pool } from "pg";

/** Reads the encrypted mark key of a workspace. Parameter: workspace. No row: it has none yet. */
export const readMarkKey = {
  name: "read-mark-key",
  text: `select sealed_key as "sealedKey" from mark_key where workspace_id = $1`,
};

/** A value with its new mark. */
export interface RemarkedValue {
  readonly valueId: string;
  readonly mark: Buffer;
}

/** A registered value as `insertMarkKey` gives it to be marked. */
export interface UnmarkedValue {
  readonly valueId: string;
  readonly kind: string;
  readonly sealedValue: Buffer;
}

const INSERT = "insert into mark_key (workspace_id, sealed_key) values ($1, $2) on conflict do nothing";
const READ_VALUES = `select value_id as "valueId", kind, sealed_value as "sealedValue" from personal_value
  where workspace_id = $1 order by value_id`;
const REMARK = `update personal_value as v set mark = decode(t.mark, 'base64')
  from jsonb_to_recordset($2::jsonb) as t(id text, mark text) where v.workspace_id = $1 and v.value_id = t.id`;

/**
 * Stores the first mark key of a workspace, and with it the marks of the values that are registered already. Does nothing if the
 * workspace has a key: several processes may do this at once, and one key MUST win.
 */
export async function insertMarkKey(
  pool: Pool,
  workspaceId: string,
  sealedKey: Buffer,
  remark: (values: readonly UnmarkedValue[]) => readonly RemarkedValue[],
): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const { rowCount } = await client.query(INSERT, [workspaceId, sealedKey]);
    if (rowCount === 1) {
      const { rows } = await client.query<UnmarkedValue>(READ_VALUES, [workspaceId]);
      const marks = remark(rows).map(({ valueId, mark }) => ({ id: valueId, mark: mark.toString("base64") }));
      if (marks.length > 0) await client.query(REMARK, [workspaceId, JSON.stringify(marks)]);
    }
    await client.query("commit");
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
