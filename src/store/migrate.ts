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

/** The role that every connection of the application acts as: it owns nothing and changes no insert-only table. */
export const APPLICATION_ROLE = "acp_app";
/** Milliseconds that one process waits for another one's migrations. */
const MIGRATION_WAIT_MS = 300_000;
/** Key of the advisory lock under which one process at a time migrates a database. */
const MIGRATION_LOCK = 7_080_002;
const MIGRATION_TABLE = "schema_migration";
const INSERT_ONLY_TRIGGER = "insert_only";

/** Result of a run of the migrations. */
export interface MigrationReport {
  /** Names of the migrations that this run applied, in order. */
  readonly applied: readonly string[];
  /** The role for the application's connections; null when the owner may not make one, so that triggers alone protect. */
  readonly role: typeof APPLICATION_ROLE | null;
}

/** Migrations and the log of their run. */
export interface MigrationOptions {
  /** In the order of their application. */
  readonly migrations: readonly Migration[];
  readonly log: StoreLog;
}

const REFUSE_CHANGE = `
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'table % takes inserts only', tg_table_name using errcode = 'insufficient_privilege';
end $$`;

/**
 * The statements that make a table insert-only, for the migration that makes the table, in order. After them UPDATE,
 * DELETE and TRUNCATE fail with SQLSTATE 42501 for everyone, the owner and replication sessions included, and every run of
 * the migrations leaves the application's role no right to them. `table` MUST be a plain lower-case name.
 */
export function insertOnly(table: string): readonly string[] {
  if (!/^[a-z_][a-z0-9_]*$/.test(table)) throw new TypeError(`\`${table}\` is no plain table name`);
  return [
    REFUSE_CHANGE,
    // Per statement: TRUNCATE has no rows, and a statement that would match none is refused as well.
    `create or replace trigger ${INSERT_ONLY_TRIGGER} before update or delete or truncate on ${table} for each statement execute function refuse_change()`,
    `alter table ${table} enable always trigger ${INSERT_ONLY_TRIGGER}`,
    `do $$ begin
  if to_regrole('${APPLICATION_ROLE}') is not null then
    revoke update, delete, truncate on ${table} from ${APPLICATION_ROLE};
  end if;
end $$`,
  ];
}

// From version 16 on, the creator of a role is a member of it without the right to SET ROLE.
const MAY_SET_ROLE = `
case when to_regrole('${APPLICATION_ROLE}') is null then false
  when current_setting('server_version_num')::int >= 160000 then pg_has_role('${APPLICATION_ROLE}', 'set')
  else pg_has_role('${APPLICATION_ROLE}', 'member') end`;

// Roles belong to the server and not to the database: a restored dump or a second database meets any state of them,
// so the role is ensured at every start instead of by a migration that runs once. The exceptions are other databases'
// processes that do the same at the same moment, and owners who may not; the query after it tells the outcome.
const ENSURE_ROLE = `
do $$ begin
  if to_regrole('${APPLICATION_ROLE}') is null then
    create role ${APPLICATION_ROLE} nologin;
  end if;
exception when duplicate_object or unique_violation or insufficient_privilege then null;
end $$;
do $$ begin
  if not (${MAY_SET_ROLE}) then
    grant ${APPLICATION_ROLE} to current_user;
  end if;
exception when undefined_object or unique_violation or insufficient_privilege or internal_error then null;
end $$`;

// One statement, so that no moment exists at which the role may change an insert-only table.
const GRANT_TABLES = `
do $$ declare
  item record;
begin
  if not has_schema_privilege('${APPLICATION_ROLE}', current_schema(), 'usage') then
    execute format('grant usage on schema %I to ${APPLICATION_ROLE}', current_schema());
  end if;
  for item in
    select c.oid::regclass as name, c.relkind, c.relname = '${MIGRATION_TABLE}' as is_record,
      exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = '${INSERT_ONLY_TRIGGER}') as is_insert_only
    from pg_class c
    where c.relnamespace = current_schema()::regnamespace and c.relowner = current_user::regrole
      and c.relkind in ('r', 'p', 'v', 'm', 'S')
  loop
    if item.relkind = 'S' then
      execute format('grant usage, select on sequence %s to ${APPLICATION_ROLE}', item.name);
    elsif item.is_record then
      execute format('grant select on %s to ${APPLICATION_ROLE}', item.name);
    elsif item.is_insert_only then
      execute format('revoke update, delete, truncate on %s from ${APPLICATION_ROLE}', item.name);
      execute format('grant select, insert on %s to ${APPLICATION_ROLE}', item.name);
    else
      execute format('grant select, insert, update, delete on %s to ${APPLICATION_ROLE}', item.name);
    end if;
  end loop;
end $$`;

/** Applies what the database does not have yet, in one transaction; gives the names. */
async function applyPending(client: Client, migrations: readonly Migration[]): Promise<readonly string[]> {
  await client.query(
    `create table if not exists ${MIGRATION_TABLE} (name text primary key, applied_at timestamptz not null default now())`,
  );
  const { rows } = await client.query<{ name: string }>(`select name from ${MIGRATION_TABLE}`);
  const applied = new Set(rows.map(({ name }) => name));
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

async function migrate(client: Client, options: MigrationOptions): Promise<MigrationReport> {
  await takeLock(client);
  await client.query(ENSURE_ROLE);
  const { rows } = await client.query(`select ${MAY_SET_ROLE} as may_set_role`);
  const applied = await applyPending(client, options.migrations);
  if (applied.length > 0) options.log.info({ applied }, "database migrated");
  if (rows[0]?.may_set_role) {
    await client.query(GRANT_TABLES);
    return { applied, role: APPLICATION_ROLE };
  }
  const details = { role: APPLICATION_ROLE };
  options.log.warn(details, "the database user may not make the application's role: triggers alone protect the ledger");
  return { applied, role: null };
}

/**
 * Brings the database to the newest schema, all pending migrations in one transaction, and sets up the application's role.
 * `ownerUrl` MUST log in as the owner of the tables. Promises: MAY run again and from several processes at once.
 */
export async function runMigrations(ownerUrl: string, options: MigrationOptions): Promise<MigrationReport> {
  const client = new Client({ connectionString: ownerUrl, application_name: "acp migrations", keepAlive: true });
  // A lost connection fails the query in flight; without this listener it would end the process as well.
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await migrate(client, options);
  } finally {
    // The end of the session gives the lock back.
    await client.end();
  }
}
