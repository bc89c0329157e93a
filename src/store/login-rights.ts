import type { ClientBase } from "pg";
import { INSERT_ONLY_TRIGGER, KEPT_TABLES, MIGRATION_TABLE } from "./migrate.ts";

/** Attributes of a role that lead to every other right, as columns of `pg_roles`. */
const ATTRIBUTES = {
  rolsuper: "SUPERUSER",
  rolcreaterole: "CREATEROLE",
  rolcreatedb: "CREATEDB",
  rolbypassrls: "BYPASSRLS",
  rolreplication: "REPLICATION",
};
/** Predefined roles, which act on the server, its files and every table. The owner of a database is a member of one by itself. */
const PREDEFINED_ROLES = "rolname like 'pg\\_%' and rolname <> 'pg_database_owner'";
/** Rights that serving needs on some tables. */
const TABLE_RIGHTS = ["insert", "update", "delete"];
/** Rights that serving needs on no table. */
const NEVER_TAKEN = ["truncate", "trigger", "references", "select with grant option", "insert with grant option"];
/** Setting that switches ordinary triggers off. */
const TRIGGER_SETTING = "session_replication_role";

const listOf = (texts: readonly string[]): string => `array['${texts.join("', '")}']`;

const attributeRows = Object.entries(ATTRIBUTES).map(
  ([column, name]) => `select '${name}' from reachable where ${column}`,
);

/**
 * Query of the login's rights that serving does not need: its own, and those of every role that it could act as. It asks for
 * the login of the session, since `RESET ROLE` returns to that. Parameters: none.
 */
const excessRightsQuery = (versionNumber: number, neverTaken: readonly string[]): string => `
  with self as (select * from pg_roles where rolname = session_user),
  -- A superuser may act as anyone: its own attribute says it all.
  reachable as (
    select r.* from pg_roles r, self where r.oid = self.oid or (not self.rolsuper and pg_has_role(self.oid, r.oid, 'member'))
  ),
  home as (
    select n.* from pg_namespace n
    where n.oid = coalesce(
      (select relnamespace from pg_class where oid = to_regclass('${MIGRATION_TABLE}')), to_regnamespace(current_schema()))
  ),
  tables as (
    select c.oid, c.relowner, c.relname, c.relname = '${MIGRATION_TABLE}' as is_record,
      exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = '${INSERT_ONLY_TRIGGER}') as is_insert_only
    from pg_class c, home where c.relnamespace = home.oid and c.relkind in ('r', 'p')
  ),
  rights (name) as (
    ${attributeRows.join("\n    union ")}
    union select 'membership in ' || rolname from reachable where ${PREDEFINED_ROLES}
    union select 'CREATE on database ' || datname from pg_database, reachable r
      where datname = current_database() and has_database_privilege(r.oid, current_database(), 'create')
    union select 'ownership of database ' || datname from pg_database, reachable r
      where datname = current_database() and datdba = r.oid
    union select 'CREATE on schema ' || nspname from home, reachable r where has_schema_privilege(r.oid, home.oid, 'create')
    union select 'ownership of schema ' || nspname from home, reachable r where nspowner = r.oid
    union select 'ownership of function ' || proname from pg_proc, home, reachable r
      where pronamespace = home.oid and proowner = r.oid
    union select 'ownership of table ' || relname from tables, reachable r where relowner = r.oid
    union select upper(kind) || ' on table ' || relname
      from tables, reachable r, unnest(${listOf([...TABLE_RIGHTS, ...neverTaken])}) as kind
      -- The owner of a table may do anything with it: the ownership says it all.
      where relowner <> r.oid and has_table_privilege(r.oid, tables.oid, kind) and (kind = any(${listOf(neverTaken)})
        or is_record or (is_insert_only and kind in ('update', 'delete'))
        or (relname = any(${listOf(KEPT_TABLES)}) and kind = 'delete'))
    union select 'UPDATE on columns of table ' || relname from tables, reachable r
      where (is_record or is_insert_only) and not has_table_privilege(r.oid, tables.oid, 'update')
        and has_any_column_privilege(r.oid, tables.oid, 'update')
    ${versionNumber >= 150_000 ? `union select 'SET of ${TRIGGER_SETTING}' from reachable r where has_parameter_privilege(r.oid, '${TRIGGER_SETTING}', 'set')` : ""}
  )
  select rights.name from rights, self where not self.rolsuper or rights.name = '${ATTRIBUTES.rolsuper}' order by 1`;

/**
 * Returns the rights of a connection's login that would let it change the log, its protection or the schema, as PostgreSQL
 * names them; empty for a login that has what `runMigrations` grants and no more.
 */
export async function readExcessRights(client: ClientBase): Promise<readonly string[]> {
  const version = await client.query<{ number: number }>("select current_setting('server_version_num')::int as number");
  const number = version.rows[0]?.number ?? 0;
  const neverTaken = number >= 170_000 ? [...NEVER_TAKEN, "maintain"] : NEVER_TAKEN;
  const { rows } = await client.query<{ name: string }>(excessRightsQuery(number, neverTaken));
  return rows.map(({ name }) => name);
}
