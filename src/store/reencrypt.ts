import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { Encryptor } from "./encryptor.ts";
import type { StoreLog } from "./migrate.ts";

/** A column of encrypted bytes. */
interface SealedColumn {
  readonly table: string;
  readonly column: string;
  /** Columns that identify a row within its workspace. */
  readonly key: readonly string[];
  /** Returns the place to which the bytes are bound, as the part that writes them names it. */
  readonly place: (...key: readonly string[]) => string;
}

/** Every column of the schema that holds encrypted bytes. */
export const SEALED_COLUMNS: readonly SealedColumn[] = [
  ...["sealed_secret", "sealed_old_secret"].map((column) => ({
    table: "webhook",
    column,
    key: ["webhook_id"],
    place: (id = "") => `webhook.${column} ${id}`,
  })),
  ...["sealed_env", "sealed_headers"].map((column) => ({
    table: "mcp_server",
    column,
    key: ["name"],
    place: (name = "") => `mcp_server.${column} ${name}`,
  })),
  {
    table: "redaction_settings",
    column: "sealed_private",
    key: [],
    place: () => "redaction_settings.sealed_private",
  },
  { table: "personal_value", column: "sealed_value", key: ["value_id"], place: (id = "") => `value ${id}` },
  {
    table: "redaction_webhook",
    column: "sealed_secret",
    key: ["webhook_id"],
    place: (id = "") => `redaction_webhook.sealed_secret ${id}`,
  },
  {
    table: "mcp_approved_call",
    column: "sealed_result",
    key: ["agent_id", "decision_id"],
    place: (agent = "", decision = "") => `mcp_approved_call.sealed_result ${agent} ${decision}`,
  },
  {
    table: "person",
    column: "sealed_refresh",
    key: ["person_id"],
    place: (id = "") => `person.sealed_refresh ${id}`,
  },
  {
    table: "notification_settings",
    column: "sealed_private",
    key: [],
    place: () => "notification_settings.sealed_private",
  },
  { table: "push_key", column: "sealed_key", key: [], place: () => "push_key.sealed_key" },
  {
    table: "session_key",
    column: "sealed_key",
    key: ["session_id"],
    place: (id = "") => `session_key.sealed_key ${id}`,
  },
  { table: "mark_key", column: "sealed_key", key: [], place: () => "mark_key.sealed_key" },
];

const PAGE_SIZE = 200;

/** Needs of encrypting anew. */
export interface ReencryptOptions {
  readonly pool: Pool;
  /** Encryptor that knows the earlier key. */
  readonly encryptor: Encryptor;
  readonly log: StoreLog;
}

/**
 * Encrypts under the present key what is still encrypted under the earlier one. A row changes by one statement, and only if nobody
 * changed it meanwhile: stopping at any moment leaves every row readable under one of the two keys, and several processes may do
 * this at once. Rows that neither key can read stay as they are, and are reported.
 */
export async function reencrypt(options: ReencryptOptions): Promise<void> {
  let renewed = 0;
  let unreadable = 0;
  for (const sealed of SEALED_COLUMNS) {
    for await (const row of rowsOf(options.pool, sealed)) {
      const outcome = await renewRow(options, sealed, row);
      if (outcome === "renewed") renewed += 1;
      if (outcome === "unreadable") unreadable += 1;
    }
  }
  if (unreadable > 0) {
    options.log.error(
      { renewed, unreadable },
      "values are readable under neither encryption key; keep the earlier keys",
    );
  } else {
    options.log.info(
      { renewed },
      "every value is encrypted under ACP_ENCRYPTION_KEY: start without ACP_ENCRYPTION_KEY_OLD",
    );
  }
}

interface SealedRow {
  /** Workspace, then the columns of the key. */
  readonly id: readonly string[];
  readonly bytes: Buffer;
}

async function* rowsOf(pool: Pool, { table, column, key }: SealedColumn): AsyncGenerator<SealedRow> {
  const names = ["workspace_id", ...key];
  let last: readonly string[] | undefined;
  for (;;) {
    const after =
      last === undefined ? "" : `and (${names.join(", ")}) > (${names.map((_, at) => `$${at + 1}`).join(", ")})`;
    const { rows } = await pool.query<Record<string, unknown>>(
      `select ${names.join(", ")}, ${column} as bytes from ${table} where ${column} is not null ${after}
        order by ${names.join(", ")} limit ${PAGE_SIZE}`,
      last === undefined ? [] : [...last],
    );
    for (const row of rows) {
      const id = names.map((name) => String(row[name]));
      yield { id, bytes: row.bytes as Buffer };
      last = id;
    }
    if (rows.length < PAGE_SIZE) return;
  }
}

async function renewRow(
  { pool, encryptor }: ReencryptOptions,
  sealed: SealedColumn,
  { id, bytes }: SealedRow,
): Promise<"renewed" | "present" | "unreadable"> {
  const [workspaceId = "", ...key] = id;
  try {
    const renewed = encryptor.renew(workspaceId, sealed.place(...key), bytes);
    if (renewed === undefined) return "present";
    const where = ["workspace_id", ...sealed.key].map((name, at) => `${name} = $${at + 3}`).join(" and ");
    const text = `update ${sealed.table} set ${sealed.column} = $1 where ${sealed.column} = $2 and ${where}`;
    await pool.query(text, [renewed, bytes, ...id]);
    return "renewed";
  } catch (error) {
    if (error instanceof ControlPlaneError && error.reason === ErrorReason.ENCRYPTION_KEY_DIFFERS) return "unreadable";
    throw error;
  }
}
