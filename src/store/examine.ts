import { Client } from "pg";
import { MIGRATION_TABLE, type Migration, type SchemaState, schemaStateOf } from "./migrate.ts";

/** Facts about a database, as its serving login sees them. */
export interface DatabaseFacts {
  /** Version of the server, such as `16.4`. */
  readonly version: string;
  /** True for a version that the service supports. */
  readonly isSupported: boolean;
  /** Undefined where the login may not read the migrations. */
  readonly schema: SchemaState | undefined;
  /** Milliseconds that the database's clock is ahead of this host's; negative: behind. */
  readonly clockAheadMs: number;
  /** Number of API keys that are not revoked; undefined where there is no table yet. */
  readonly keys: number | undefined;
}

/** The oldest supported version of PostgreSQL. */
const MIN_VERSION = 140_000;
const TIMEOUT_MS = 5_000;
const UNREADABLE = /^(42P01|42501)$/;

async function unlessUnreadable<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (UNREADABLE.test(String((error as { code?: string }).code))) return undefined;
    throw error;
  }
}

/** Connects, reads and changes nothing. Rejects when the database cannot be reached; the message holds no password. */
export async function examineDatabase(url: string, migrations: readonly Migration[]): Promise<DatabaseFacts> {
  const client = new Client({
    connectionString: url,
    application_name: "agentctl doctor",
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const sentAt = Date.now();
    const { rows } = await client.query<{ version: string; number: number; now: number }>(
      "select current_setting('server_version') as version, current_setting('server_version_num')::int as number, extract(epoch from clock_timestamp())::float8 * 1000 as now",
    );
    const halfway = (sentAt + Date.now()) / 2;
    const { version = "", number = 0, now = 0 } = rows[0] ?? {};
    const names = await unlessUnreadable(client.query<{ name: string }>(`select name from ${MIGRATION_TABLE}`));
    const keys = await unlessUnreadable(
      client.query<{ count: number }>("select count(*)::int as count from api_key where revoked_at_ms is null"),
    );
    return {
      version,
      isSupported: number >= MIN_VERSION,
      schema:
        names &&
        schemaStateOf(
          names.rows.map(({ name }) => name),
          migrations,
        ),
      clockAheadMs: Math.round(now - halfway),
      keys: keys?.rows[0]?.count,
    };
  } finally {
    await client.end().catch(() => undefined);
  }
}
