import type { PersonalValueRow } from "../entities.ts";
import type { Transaction } from "../transaction.ts";

/** The settings of a workspace as `readRedactionSettings` gives them. */
export interface StoredRedactionSettings {
  readonly restoreValues: boolean;
  readonly allowMedia: boolean;
  readonly disabledKinds: readonly string[];
  readonly sealedPrivate: Uint8Array;
  readonly revision: number;
}

/** Reads a workspace's settings; runs on every request of the proxy. Parameter: workspace. No row: nothing was ever set. */
export const readRedactionSettings = {
  name: "read-redaction-settings",
  text: `select restore_values as "restoreValues", allow_media as "allowMedia", disabled_kinds as "disabledKinds",
      sealed_private as "sealedPrivate", revision::float8 as revision
    from redaction_settings where workspace_id = $1`,
};

/** A registered value as `readPersonalValues` gives it. */
export interface StoredPersonalValue {
  readonly valueId: string;
  readonly kind: string;
  readonly sealedValue: Buffer;
}

/** Reads registered values, ordered by id. Parameters: workspace, id to start after (empty: from the first), most rows. */
export const readPersonalValues = {
  name: "read-personal-values",
  text: `select value_id as "valueId", kind, sealed_value as "sealedValue" from personal_value
    where workspace_id = $1 and value_id > $2 order by value_id limit $3`,
};

/** Reads the active webhooks for leaks. Parameter: workspace. */
export const readActiveRedactionWebhooks = {
  name: "read-active-redaction-webhooks",
  text: `select webhook_id as "webhookId", url, sealed_secret as "sealedSecret" from redaction_webhook
    where workspace_id = $1 and is_active order by webhook_id`,
};

/** A webhook as `readActiveRedactionWebhooks` gives it. */
export interface ActiveRedactionWebhook {
  readonly webhookId: string;
  readonly url: string;
  readonly sealedSecret: Buffer | null;
}

// Rows travel as one JSON text: thousands of ORM entities would take long, and the end of the workspace's log is locked meanwhile.

const FIND = `select value_id as "valueId", kind, sealed_value as "sealedValue", mark, created_at_ms::float8 as "createdAtMs"
  from personal_value where workspace_id = ?
    and mark in (select decode(m, 'base64') from jsonb_array_elements_text(?::jsonb) as m)`;

const INSERT = `insert into personal_value (workspace_id, value_id, kind, sealed_value, mark, created_at_ms)
  select ?, id, kind, decode(sealed, 'base64'), decode(mark, 'base64'), ?::bigint
  from jsonb_to_recordset(?::jsonb) as t(id text, kind text, sealed text, mark text)`;

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

/** Reads the values of a workspace that have one of some marks, in no particular order. */
export async function findPersonalValues(
  transaction: Transaction,
  workspaceId: string,
  marks: readonly Uint8Array[],
): Promise<PersonalValueRow[]> {
  const rows = await transaction.execute(FIND, [workspaceId, JSON.stringify(marks.map(base64))]);
  return (rows as Omit<PersonalValueRow, "workspaceId">[]).map((row) => ({ ...row, workspaceId }));
}

/** Writes values of a workspace, all made at one time. Their marks MUST be new. */
export async function insertPersonalValues(
  transaction: Transaction,
  workspaceId: string,
  createdAtMs: number,
  rows: readonly PersonalValueRow[],
): Promise<void> {
  const texts = rows.map(({ valueId, kind, sealedValue, mark }) => ({
    id: valueId,
    kind,
    sealed: base64(sealedValue),
    mark: base64(mark),
  }));
  await transaction.execute(INSERT, [workspaceId, createdAtMs, JSON.stringify(texts)]);
}
