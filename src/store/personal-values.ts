import type { PersonalValueRow } from "./entities.ts";
import type { Transaction } from "./transaction.ts";

// Rows travel as one JSON text: through entities 5,000 of them take a second, during which the workspace's log stands still.

const FIND = `select value_id as "valueId", kind, sealed_value as "sealedValue", mark, created_at_ms::float8 as "createdAtMs"
  from personal_value where workspace_id = ?
    and mark in (select decode(m, 'base64') from jsonb_array_elements_text(?::jsonb) as m)`;

const INSERT = `insert into personal_value (workspace_id, value_id, kind, sealed_value, mark, created_at_ms)
  select ?, id, kind, decode(sealed, 'base64'), decode(mark, 'base64'), ?::bigint
  from jsonb_to_recordset(?::jsonb) as t(id text, kind text, sealed text, mark text)`;

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

/** The values of a workspace that have one of some marks, in no particular order. */
export async function findPersonalValues(
  transaction: Transaction,
  workspaceId: string,
  marks: readonly Uint8Array[],
): Promise<PersonalValueRow[]> {
  const rows = await transaction.execute(FIND, [workspaceId, JSON.stringify(marks.map(base64))]);
  return (rows as Omit<PersonalValueRow, "workspaceId">[]).map((row) => ({ ...row, workspaceId }));
}

/** Writes values of a workspace, all made at one time. None of their marks may be there already. */
export async function insertPersonalValues(
  transaction: Transaction,
  workspaceId: string,
  createdAtMs: number,
  rows: readonly PersonalValueRow[],
): Promise<void> {
  const texts = rows.map(({ valueId, kind, sealedValue, mark }) => ({
    ...{ id: valueId, kind, sealed: base64(sealedValue), mark: base64(mark) },
  }));
  await transaction.execute(INSERT, [workspaceId, createdAtMs, JSON.stringify(texts)]);
}
