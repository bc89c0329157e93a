import { Client } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Log of the store; a pino logger is one. */
export interface StoreLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
}

/** One step of the schema. */
export interface Migration {
  /** Recorded in the database; a released name and its statements never change. */
  readonly name: string;
  readonly statements: readonly string[];
}

/** Milliseconds that one process waits for another one's migrations. */
const MIGRATION_WAIT_MS = 300_000;
/** Key of the advisory lock under which one process at a time migrates a database. */
const MIGRATION_LOCK = 7_080_002;
/** Table of the names of applied migrations. */
export const MIGRATION_TABLE = "schema_migration";
/** Tables whose rows the login that serves may not delete: a log's head, and its workspace. */
export const KEPT_TABLES = ["ledger_head", "workspace"];
/** Trigger on every insert-only table. */
export const INSERT_ONLY_TRIGGER = "insert_only";

/** Migrations, the login that is to serve, and the log of the run. */
export interface MigrationOptions {
  /** In the order of their application. */
  readonly migrations: readonly Migration[];
  /** Role that gets exactly the rights that serving needs. MUST exist. Absent: the owner serves. */
  readonly login?: string | undefined;
  readonly log: StoreLog;
}

const REFUSE_CHANGE = `
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'table % takes inserts only', tg_table_name using errcode = 'insufficient_privilege';
end $$`;

/**
 * Returns the statements that make a table insert-only, for the migration that creates the table, in order. After them UPDATE,
 * DELETE and TRUNCATE fail with SQLSTATE 42501 for everyone, the owner and replication sessions included, and after every run
 * of the migrations the login that serves has no right to them. `table` MUST be a plain lower-case name.
 */
export function insertOnly(table: string): readonly string[] {
  if (!/^[a-z_][a-z0-9_]*$/.test(table)) throw new TypeError(`\`${table}\` is not a plain table name`);
  return [
    REFUSE_CHANGE,
    // Per statement: TRUNCATE has no rows, and a statement that would match none is refused as well.
    `create or replace trigger ${INSERT_ONLY_TRIGGER} before update or delete or truncate on ${table} for each statement execute function refuse_change()`,
    `alter table ${table} enable always trigger ${INSERT_ONLY_TRIGGER}`,
  ];
}

// One statement, so that no moment exists at which the login has more rights, or fewer, than it should.
const GRANT_TABLES = `
do $$ declare
  login name := current_setting('acp.login');
  item record;
begin
  execute format('revoke all on schema %I from %I', current_schema(), login);
  execute format('grant usage on schema %I to %I', current_schema(), login);
  for item in
    select c.oid::regclass as name, case c.relkind when 'S' then 'sequence' else 'table' end as kind, case
      when c.relkind = 'S' then 'usage, select'
      when c.relname = '${MIGRATION_TABLE}' then 'select'
      when exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = '${INSERT_ONLY_TRIGGER}') then 'select, insert'
      when c.relname in ('${KEPT_TABLES.join("', '")}') then 'select, insert, update'
      else 'select, insert, update, delete' end as rights
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relowner = current_user::regrole
      and c.relkind in ('r', 'p', 'v', 'm', 'S')
  loop
    execute format('revoke all on %s %s from %I', item.kind, item.name, login);
    execute format('grant %s on %s %s to %I', item.rights, item.kind, item.name, login);
  end loop;
end $$`;

/** Grants a role the rights that serving needs, and revokes all others. Does nothing for the owner itself. */
async function grantTo(client: Client, login: string): Promise<void> {
  const { rows } = await client.query("select current_user = $1 as is_owner", [login]);
  if (rows[0]?.is_owner) return;
  await client.query("select set_config('acp.login', $1, false)", [login]);
  await client.query(GRANT_TABLES);
}

/** Migrations of a database, compared with those that this version knows. */
export interface SchemaState {
  /** Names in the order of their application. */
  readonly applied: readonly string[];
  /** Names that the database lacks. */
  readonly pending: readonly string[];
  /** Names of a newer version, which this one does not know. */
  readonly unknown: readonly string[];
}

/** Compares the names of applied migrations with the known ones. */
export function schemaStateOf(applied: readonly string[], migrations: readonly Migration[]): SchemaState {
  const known = new Set(migrations.map(({ name }) => name));
  const done = new Set(applied);
  return {
    applied,
    pending: [...known].filter((name) => !done.has(name)),
    unknown: applied.filter((name) => !known.has(name)),
  };
}

/** Throws STORE_UNAVAILABLE for a database of a newer version: this one would misread it. */
export function assertNotNewer({ unknown }: SchemaState): void {
  if (unknown.length === 0) return;
  const message = `the database is of a newer version, which applied \`${unknown.join()}\`: start that version or a later one, or restore a backup from before`;
  throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { unknown: unknown.join() });
}

const UNDEFINED_TABLE = "42P01";

/** Reads the migrations of a database. `ownerUrl` MUST log in as a role that may read their table. */
export async function readSchemaState(ownerUrl: string, migrations: readonly Migration[]): Promise<SchemaState> {
  const client = new Client({ connectionString: ownerUrl, application_name: "acp migrations", keepAlive: true });
  client.on("error", () => undefined);
  await client.connect();
  try {
    const { rows } = await client
      .query<{ name: string }>(`select name from ${MIGRATION_TABLE} order by applied_at, name`)
      .catch((error: { code?: string }) => {
        if (error.code !== UNDEFINED_TABLE) throw error;
        return { rows: [] };
      });
    return schemaStateOf(
      rows.map(({ name }) => name),
      migrations,
    );
  } finally {
    await client.end();
  }
}

/** Applies the migrations that the database lacks, in one transaction. Returns their names. */
async function applyPending(client: Client, migrations: readonly Migration[]): Promise<readonly string[]> {
  await client.query(
    `create table if not exists ${MIGRATION_TABLE} (name text primary key, applied_at timestamptz not null default now())`,
  );
  const { rows } = await client.query<{ name: string }>(`select name from ${MIGRATION_TABLE}`);
  const applied = new Set(rows.map(({ name }) => name));
  assertNotNewer(schemaStateOf([...applied], migrations));
  const pending = migrations.filter(({ name }) => !applied.has(name));
  await client.query("begin");
  // An error ends the session, and with it the transaction.
  for (const { name, statements } of pending) {
    for (const statement of statements) await client.query(statement);
    await client.query(`insert into ${MIGRATION_TABLE} (name) values ($1)`, [name]);
  }
  await client.query("commit");
  return pending.map(({ name }) => name);
}

async function takeLock(client: Client): Promise<void> {
  await client.query(`set lock_timeout = ${MIGRATION_WAIT_MS}`);
  await client.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]).catch((cause: { code?: string }) => {
    if (cause.code !== "55P03") throw cause;
    const message = `another process has been migrating the database for ${MIGRATION_WAIT_MS} ms`;
    throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, {}, { cause });
  });
  await client.query("set lock_timeout = 0");
}

async function migrate(client: Client, { migrations, login, log }: MigrationOptions): Promise<readonly string[]> {
  await takeLock(client);
  const applied = await applyPending(client, migrations);
  if (login !== undefined) await grantTo(client, login);
  if (applied.length > 0) log.info({ applied }, "database migrated");
  return applied;
}

/**
 * Brings the database to the newest schema, all pending migrations in one transaction, and grants the login that serves its
 * rights. Rejects with STORE_UNAVAILABLE for a database of a newer version. Returns the names of the migrations that this run applied, in order. `ownerUrl` MUST log in as the owner of the
 * tables. Promises: MAY run again and from several processes at once.
 */
export async function runMigrations(ownerUrl: string, options: MigrationOptions): Promise<readonly string[]> {
  const client = new Client({ connectionString: ownerUrl, application_name: "acp migrations", keepAlive: true });
  // A lost connection fails the query in flight; without this listener it would end the process as well.
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await migrate(client, options);
  } finally {
    // The end of the session releases the lock.
    await client.end();
  }
}
