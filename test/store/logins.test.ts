import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { type Database, loginOf, openDatabase } from "../../src/store/database.ts";
import { readExcessRights } from "../../src/store/login-rights.ts";
import type { Migration } from "../../src/store/migrate.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, urlOf, withClient } from "../support/database.ts";
import { directUrlOf, sessionUrlOf } from "../support/pooler.ts";
import { assertServingLogin } from "../support/serving-login.ts";
import { NONE, TINY_MIGRATIONS } from "./tiny-migrations.ts";

interface Answer {
  /** SQLSTATE of the refusal; undefined if the last statement went through. */
  readonly code: string | undefined;
  /** SQLSTATEs of warnings. */
  readonly notices: readonly (string | undefined)[];
}

/** Runs statements one after the other, and stops at the first refusal. */
function answerTo(url: string, statements: readonly string[]): Promise<Answer> {
  return withClient(url, async (client) => {
    const notices: (string | undefined)[] = [];
    client.on("notice", ({ code }) => notices.push(code));
    for (const [index, statement] of statements.entries()) {
      const code = await client.query(statement).then(
        () => undefined,
        (error: { code: string }) => error.code,
      );
      if (code === undefined) continue;
      expect(index, `only the last of ${statements.join("; ")} is refused`).to.equal(statements.length - 1);
      return { code, notices };
    }
    return { code: undefined, notices };
  });
}

/** Everything that could change what was written or what protects it, in the words of one table. */
const attacksOn = (table: string, key: string): readonly string[][] => [
  [`update ${table} set ${key} = ${key}`],
  [`update ${table} set ${key} = ${key} where false`],
  [`delete from ${table}`],
  [`truncate ${table}`],
  [`merge into ${table} t using ledger_head h on false when matched then delete`],
  [`select * from ${table} for update`],
  [`select * from ${table} for key share`],
  [`alter table ${table} disable trigger all`],
  [`alter table ${table} disable trigger insert_only`],
  [`alter table ${table} enable replica trigger insert_only`],
  [`drop trigger insert_only on ${table}`],
  [`create trigger other before insert on ${table} for each statement execute function refuse_change()`],
  [`create rule other as on insert to ${table} do instead nothing`],
  [`alter table ${table} disable trigger user`],
  [`alter table ${table} enable row level security`],
  [`alter table ${table} disable row level security`],
  [`alter table ${table} no force row level security`],
  [`create policy other on ${table} using (false)`],
  [`alter table ${table} drop column ${key}`],
  [`alter table ${table} add column other int`],
  [`alter table ${table} rename column ${key} to other`],
  [`alter table ${table} rename to other`],
  [`alter table ${table} set schema pg_temp`],
  [`alter table ${table} set unlogged`],
  [`alter table ${table} set (autovacuum_enabled = false)`],
  [`alter table ${table} inherit schema_migration`],
  [`create index other on ${table} (${key})`],
  [`reindex table ${table}`],
  [`cluster ${table}`],
  [`comment on table ${table} is 'other'`],
  [`create statistics other on ctid, ${key} from ${table}`],
  [`alter table ${table} owner to current_user`],
  [`drop table ${table}`],
  [`drop table ${table} cascade`],
  ["begin", `lock table ${table} in access exclusive mode`],
  ["begin", `lock table ${table} in share mode`],
  ["reset role", `update ${table} set ${key} = ${key}`],
  ["set role none", `delete from ${table}`],
  ["set session authorization default", `truncate ${table}`],
  [`copy ${table} to program 'cat'`],
  [`copy ${table} from program 'true'`],
  [`copy ${table} to '/tmp/copied'`],
];

const GENERAL: readonly string[][] = [
  ["insert into ledger_entry select * from ledger_entry on conflict (workspace_id, seq) do update set body = '{}'"],
  ["set session_replication_role = replica"],
  ["set local session_replication_role = replica"],
  ["select set_config('session_replication_role', 'replica', false)"],
  ["set session_replication_role = local"],
  ["set log_statement = 'none'"],
  ["set lo_compat_privileges = on"],
  ["set session_preload_libraries = 'other'"],
  ["select * from pg_authid"],
  ["select rolpassword from pg_authid"],
  ["select * from pg_shadow"],
  ["select * from pg_hba_file_rules"],
  ["select * from pg_file_settings"],
  ["select * from pg_largeobject"],
  ["create table extra (n int)"],
  ["create table extra as select * from ledger_entry"],
  ["select * into extra from ledger_entry"],
  ["create materialized view extra as select 1"],
  ["create domain extra as int"],
  ["create operator public.=== (leftarg = int, rightarg = int, function = int4eq)"],
  ["create aggregate extra (int) (sfunc = int4pl, stype = int)"],
  ["create procedure extra() language sql as 'select 1'"],
  ["create function extra() returns int language plpgsql security definer as 'begin return 1; end'"],
  ["create view extra as select 1"],
  ["create sequence extra"],
  ["create type extra as enum ('a')"],
  ["create function extra() returns int language sql as 'select 1'"],
  ["create schema extra"],
  ["create extension plpython3u"],
  ["create language other handler plpgsql_call_handler"],
  ["create event trigger other on ddl_command_start execute function refuse_change()"],
  ["create tablespace other location '/tmp'"],
  ["create foreign data wrapper other"],
  ["create subscription other connection '' publication other with (connect = false)"],
  ["create access method other type index handler bthandler"],
  ["load 'auto_explain'"],
  ["create or replace function refuse_change() returns trigger language plpgsql as 'begin return null; end'"],
  ["alter function refuse_change() rename to other"],
  ["drop function refuse_change() cascade"],
  ["insert into schema_migration (name) values ('0009-other')"],
  ["update schema_migration set name = 'x'"],
  ["delete from schema_migration"],
  ["truncate schema_migration"],
  ["drop table schema_migration"],
  ["create role other"],
  ["create role other superuser login"],
  ["create user other"],
  ["create group other"],
  ["grant pg_execute_server_program to current_user"],
  ["grant pg_write_all_data to current_user"],
  ["alter role current_user superuser"],
  ["alter role current_user createrole"],
  ["alter role current_user bypassrls"],
  ["alter role current_user replication"],
  ["alter role all set session_replication_role = replica"],
  ["alter role current_user set session_replication_role = replica"],
  ["alter system set fsync = off"],
  ["alter system reset all"],
  ["select pg_reload_conf()"],
  ["select pg_rotate_logfile()"],
  ["select pg_switch_wal()"],
  ["select pg_create_restore_point('other')"],
  ["select pg_promote()"],
  ["select pg_stat_reset()"],
  ["select pg_create_logical_replication_slot('other', 'pgoutput')"],
  ["select pg_create_physical_replication_slot('other')"],
  ["select pg_drop_replication_slot('other')"],
  ["checkpoint"],
  ["copy (select 1) to program 'cat'"],
  ["copy (select 1) to '/tmp/copied'"],
  ["create temporary table taken (line text)", "copy taken from program 'id'"],
  ["create temporary table taken (line text)", "copy taken from '/etc/hostname'"],
  ["create database other"],
  ["alter schema public owner to current_user"],
  ["drop schema public cascade"],
  ["create publication other for all tables"],
  ["do $$ begin execute 'alter table ledger_entry disable trigger all'; end $$"],
  ["select pg_read_file('PG_VERSION')"],
  ["select pg_read_binary_file('PG_VERSION')"],
  ["select pg_ls_dir('.')"],
  ["select pg_stat_file('PG_VERSION')"],
  ["select lo_import('/etc/hostname')"],
  ["select lo_export(1, '/tmp/x')"],
  ["set row_security = off; update ledger_entry set seq = seq"],
];

/** Insert-only tables of the product, by a column of each. */
async function insertOnlyTables(ownerUrl: string): Promise<readonly { table: string; key: string }[]> {
  const { rows } = await withClient(ownerUrl, (client) =>
    client.query<{ table: string; key: string }>(
      `select c.relname as table, (select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum = 1) as key
       from pg_trigger t join pg_class c on c.oid = t.tgrelid where t.tgname = 'insert_only'`,
    ),
  );
  return rows;
}

const databaseOf = (url: string): string => new URL(url).pathname.slice(1);

describe("the login that serves", () => {
  let test: TestDatabase;
  before(async () => {
    test = await createTestDatabase();
  });
  after(() => test.drop());

  it("is refused with 42501 every statement that would change an insert-only table or its protection.", async () => {
    const tables = await insertOnlyTables(test.ownerUrl);
    expect(tables.map(({ table }) => table)).to.include("ledger_entry");
    for (const { table, key } of tables) {
      for (const statements of attacksOn(table, key)) {
        expect((await answerTo(test.url, statements)).code, statements.join("; ")).to.equal("42501");
      }
    }
  });

  it("is refused with 42501 every statement that would change a table's form or triggers, whichever table it is.", async () => {
    const { rows } = await withClient(test.ownerUrl, (client) =>
      client.query<{ name: string }>(
        "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'",
      ),
    );
    expect(rows.map(({ name }) => name)).to.include.members(["ledger_head", "api_key", "agent", "schema_migration"]);
    for (const { name } of rows) {
      const statements = [
        `truncate ${name}`,
        `drop table ${name} cascade`,
        `alter table ${name} add column other int`,
        `alter table ${name} disable trigger all`,
        `alter table ${name} enable row level security`,
        `alter table ${name} owner to current_user`,
        `create trigger other before insert on ${name} for each row execute function refuse_change()`,
        `create rule other as on insert to ${name} do instead nothing`,
        `create index other on ${name} ((1))`,
        `copy ${name} to program 'cat'`,
      ];
      for (const statement of statements) {
        expect((await answerTo(test.url, [statement])).code, statement).to.equal("42501");
      }
    }
  });

  it("ends no session of the owner and reads none of its statements.", async () => {
    await withClient(test.ownerUrl, async (owner) => {
      const { rows } = await owner.query<{ pid: number }>("select pg_backend_pid() as pid");
      for (const act of ["pg_terminate_backend", "pg_cancel_backend", "pg_log_backend_memory_contexts"]) {
        expect((await answerTo(test.url, [`select ${act}(${rows[0]?.pid})`])).code, act).to.equal("42501");
      }
      const seen = await withClient(test.url, (client) =>
        client.query<{ query: string }>("select query from pg_stat_activity where pid = $1", [rows[0]?.pid]),
      );
      expect(seen.rows).to.deep.equal([{ query: "<insufficient privilege>" }]);
    });
  });

  for (const statements of GENERAL) {
    it(`is refused \`${statements.join("; ")}\` with 42501.`, async () => {
      expect((await answerTo(test.url, statements)).code).to.equal("42501");
    });
  }

  it("can neither become the owner nor be made a member of it.", async () => {
    const [owner, login] = [loginOf(test.ownerUrl), loginOf(test.url)];
    const attempts = [
      `set role ${owner}`,
      `set local role ${owner}`,
      `set session authorization ${owner}`,
      `grant ${owner} to ${login}`,
      `alter role ${owner} password 'x'`,
      `drop owned by ${owner}`,
      `drop role ${owner}`,
      `alter role ${owner} rename to other`,
      `alter role ${owner} set search_path = other`,
      `alter default privileges for role ${owner} grant all on tables to ${login}`,
      `create schema extra authorization ${owner}`,
      `alter database ${databaseOf(test.url)} owner to ${login}`,
      `alter database ${databaseOf(test.url)} set session_replication_role = replica`,
      `alter database ${databaseOf(test.url)} rename to other`,
      `drop database ${databaseOf(test.url)}`,
      `reassign owned by ${owner} to ${login}`,
    ];
    for (const statement of attempts) {
      expect((await answerTo(test.url, [statement])).code, statement).to.equal("42501");
    }
  });

  it("deletes neither a log's head nor a workspace, and may change both; the check at start knows the right.", async () => {
    for (const table of ["ledger_head", "workspace"]) {
      const row = table === "workspace" ? "name = name" : "seq = seq";
      for (const statement of [`delete from ${table}`, `delete from ${table} where false`, `truncate ${table}`])
        expect((await answerTo(test.url, [statement])).code, statement).to.equal("42501");
      expect((await answerTo(test.url, [`update ${table} set ${row}`])).code).to.equal(undefined);
      const rights = await withClient(test.ownerUrl, async (client) => {
        await client.query("begin");
        await client.query(`grant delete on ${table} to ${loginOf(test.url)}`);
        await client.query(`set local session authorization ${loginOf(test.url)}`);
        return readExcessRights(client);
      });
      expect(rights).to.deep.equal([`DELETE on table ${table}`]);
    }
    for (const statement of ["delete from ledger_head", "delete from workspace"])
      expect((await answerTo(test.ownerUrl, ["begin", statement])).code).to.equal(undefined);
  });

  it("grants itself nothing: a GRANT without the right to it is a warning and changes nothing.", async () => {
    const login = loginOf(test.url);
    const answer = await answerTo(test.url, [`grant update, trigger on ledger_entry to ${login}`]);
    expect(answer).to.deep.equal({ code: undefined, notices: ["01007"] });
    expect((await answerTo(test.url, ["update ledger_entry set seq = seq"])).code).to.equal("42501");
    expect(await withClient(test.url, readExcessRights)).to.deep.equal([]);
  });

  it("may insert and read, as the log needs.", async () => {
    const row = `insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, leaf_hash, body)
      values ('other', 0, 0, 1, 'e', '', '{}')`;
    const answer = await answerTo(test.url, [row, "select count(*) from ledger_entry"]);
    expect(answer.code).to.equal(undefined);
  });
});

describe("the check of the login at start", () => {
  const role = `acp_test_${randomUUID().slice(0, 8)}_checked`;
  const password = randomBytes(9).toString("hex");
  let test: TestDatabase;
  let url: string;
  let warnings: string[];

  /** The rights that the check finds after the owner gave the login something, which is undone. */
  function rightsAfter(...statements: readonly string[]): Promise<readonly string[]> {
    return withClient(test.ownerUrl, async (client) => {
      await client.query("begin");
      for (const statement of statements) await client.query(statement);
      await client.query(`set local session authorization ${role}`);
      return readExcessRights(client);
    });
  }

  const asOwner = (statement: string) => withClient(test.ownerUrl, (client) => client.query(statement));
  const open = (more: {
    url: string;
    ownerUrl?: string;
    migrations?: readonly Migration[];
    migrate?: boolean;
  }): Promise<Database> => {
    const log = { ...SILENT_LOG, warn: (_: object, message: string) => void warnings.push(message) };
    const options = { poolSize: 2, log, migrations: TINY_MIGRATIONS, connectMs: 2_000 };
    return openDatabase({ ...options, directUrl: directUrlOf(more.url), ...more });
  };

  beforeEach(() => {
    warnings = [];
  });
  before(async () => {
    warnings = [];
    test = await createTestDatabase(NONE);
    await asOwner(`create role ${role} login password '${password}'`);
    // A login of its own, which no pooler knows.
    url = urlOf(sessionUrlOf(test.url), new URL(test.url).pathname.slice(1), { name: role, password });
    await (await open({ url, ownerUrl: test.ownerUrl })).close();
  });
  after(async () => {
    await asOwner(`drop owned by ${role} cascade`);
    await asOwner(`drop role ${role}`);
    await test.drop();
  });

  it("finds nothing after a migration by the owner, and does not warn.", async () => {
    const database = await open({ url });
    expect(database.excessRights).to.deep.equal([]);
    await database.close();
    expect(warnings).to.deep.equal([]);
  });

  it("warns of each right by name, and serves.", async () => {
    await asOwner(`grant update, truncate on sealed_note to ${role}`);
    const database = await open({ url });
    await database.close();
    await asOwner(`revoke update, truncate on sealed_note from ${role}`);
    expect(database.excessRights).to.deep.equal(["TRUNCATE on table sealed_note", "UPDATE on table sealed_note"]);
    expect(warnings.join())
      .to.include("it has TRUNCATE on table sealed_note, UPDATE on table sealed_note; set ACP_DATABASE_OWNER_URL")
      .and.include(role)
      .and.not.include(password);
  });

  const CASES: readonly (readonly [right: string, ...statements: string[]])[] = [
    ["UPDATE on table sealed_note", `grant update on sealed_note to ${role}`],
    ["UPDATE on columns of table sealed_note", `grant update (body) on sealed_note to ${role}`],
    ["DELETE on table sealed_note", `grant delete on sealed_note to ${role}`],
    ["DELETE on table sealed_note", "grant delete on sealed_note to public"],
    ["TRUNCATE on table sealed_note", `grant truncate on sealed_note to ${role}`],
    ["TRIGGER on table note", `grant trigger on note to ${role}`],
    ["REFERENCES on table sealed_note", `grant references on sealed_note to ${role}`],
    ["MAINTAIN on table sealed_note", `grant maintain on sealed_note to ${role}`],
    ["SELECT WITH GRANT OPTION on table sealed_note", `grant select on sealed_note to ${role} with grant option`],
    ["INSERT WITH GRANT OPTION on table sealed_note", `grant insert on sealed_note to ${role} with grant option`],
    ["INSERT on table schema_migration", `grant insert on schema_migration to ${role}`],
    ["CREATE on schema public", `grant create on schema public to ${role}`],
    ["ownership of table sealed_note", `alter table sealed_note owner to ${role}`],
    ["ownership of function refuse_change", `alter function refuse_change() owner to ${role}`],
    ["CREATEROLE", `alter role ${role} createrole`],
    ["CREATEDB", `alter role ${role} createdb`],
    ["BYPASSRLS", `alter role ${role} bypassrls`],
    ["REPLICATION", `alter role ${role} replication`],
    ["SUPERUSER", `alter role ${role} superuser`],
    ["membership in pg_execute_server_program", `grant pg_execute_server_program to ${role}`],
    ["membership in pg_read_server_files", `grant pg_read_server_files to ${role}`],
    ["membership in pg_signal_backend", `grant pg_signal_backend to ${role}`],
    ["membership in pg_maintain", `grant pg_maintain to ${role}`],
    ["membership in pg_read_all_data", `grant pg_read_all_data to ${role}`],
    ["DELETE on table sealed_note", `grant pg_write_all_data to ${role}`],
    ["SET of session_replication_role", `grant set on parameter session_replication_role to ${role}`],
  ];
  for (const [right, ...statements] of CASES) {
    it(`names \`${right}\` after \`${statements.join("; ").replaceAll(role, "the login")}\`.`, async () => {
      expect(await rightsAfter(...statements)).to.include(right);
    });
  }

  it("keeps the tests from running under such a login, and says what to take from it.", async () => {
    await assertServingLogin(url);
    const given: readonly (readonly [right: string, give: string, take: string])[] = [
      ["SUPERUSER", `alter role ${role} superuser`, `alter role ${role} nosuperuser`],
      ["CREATEROLE", `alter role ${role} createrole`, `alter role ${role} nocreaterole`],
      ["CREATEDB", `alter role ${role} createdb`, `alter role ${role} nocreatedb`],
      ["BYPASSRLS", `alter role ${role} bypassrls`, `alter role ${role} nobypassrls`],
      ["REPLICATION", `alter role ${role} replication`, `alter role ${role} noreplication`],
      [
        "ownership of table note",
        `alter table note owner to ${role}`,
        `alter table note owner to ${loginOf(test.ownerUrl)}; revoke all on note from ${role};
         grant select, insert, update, delete on note to ${role};
         grant usage, select on sequence note_id_seq to ${role}`,
      ],
      ...["update", "delete", "truncate"].map(
        (right) =>
          [
            `${right.toUpperCase()} on table sealed_note`,
            `grant ${right} on sealed_note to ${role}`,
            `revoke ${right} on sealed_note from ${role}`,
          ] as const,
      ),
    ];
    for (const [right, give, take] of given) {
      await asOwner(give);
      const refusal = await assertServingLogin(url).then(
        () => "",
        ({ message }: Error) => message,
      );
      await asOwner(take);
      expect(refusal).to.include(`under the login \`${role}\`: it has `).and.include(right).and.include("take these");
      expect(refusal).not.to.include(password);
    }
    await assertServingLogin(url);
  });

  it("looks at what the login could become, however it is called when it arrives.", async () => {
    const member = [`alter role ${role} noinherit`, `grant ${loginOf(test.ownerUrl)} to ${role}`];
    expect(await rightsAfter(...member))
      .to.include("SUPERUSER")
      .and.include("ownership of table note");
    // The role that it arrives as is not the one that it returns to.
    const disguised = [`alter role ${role} superuser`, `alter role ${role} set role = ${loginOf(test.url)}`];
    for (const statement of disguised) await asOwner(statement);
    expect(await withClient(url, readExcessRights)).to.deep.equal(["SUPERUSER"]);
    await asOwner(`alter role ${role} nosuperuser; alter role ${role} reset role`);
  });

  it("warns when one login owns and serves, which it then may.", async () => {
    const both = await createTestDatabase(NONE);
    const database = await open({ url: both.ownerUrl });
    expect(database.excessRights).to.deep.equal(["SUPERUSER"]);
    expect(warnings.join()).to.include("SUPERUSER").and.include("ACP_DATABASE_OWNER_URL");
    expect((await database.pool.query("select * from note")).rows).to.deep.equal([]);
    await database.close();
    await both.drop();
  });

  it("serves without the owner's login once another process has migrated.", async () => {
    const database = await open({ url });
    await database.pool.query("insert into note (body) values ('a')");
    await database.close();
  });

  const failure = async (opening: Promise<Database>): Promise<ControlPlaneError> => {
    const error = await opening.then(
      () => undefined,
      (each: unknown) => each,
    );
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect((error as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
    expect((error as Error).message).not.to.include(password);
    return error as ControlPlaneError;
  };

  it("refuses to serve a database that nobody migrated, and says which login is missing.", async () => {
    const empty = await createTestDatabase(NONE);
    const migrations = [...TINY_MIGRATIONS, { name: "0003-later", statements: [] }];
    const { message } = await failure(open({ url: empty.url }));
    expect(message).to.include("lacks `0001-note,0002-sealed-note`").and.include("set ACP_DATABASE_OWNER_URL");
    expect((await failure(open({ url, migrations }))).message).to.include("lacks `0003-later`");
    await empty.drop();
  });

  it("refuses an older database where another process migrates, with the command that does, and changes nothing.", async () => {
    const older = await createTestDatabase(NONE);
    const both = { url: older.url, ownerUrl: older.ownerUrl, migrate: false };
    const { message } = await failure(open(both));
    expect(message).to.include("lacks `0001-note,0002-sealed-note`").and.include("`agentctl migrate up`");
    expect((await failure(open(both))).message).to.equal(message);
    await older.drop();
  });

  it("refuses a database of a newer version, whoever migrates.", async () => {
    const migrations = TINY_MIGRATIONS.slice(0, 1);
    for (const more of [{}, { migrate: false }, { ownerUrl: test.ownerUrl }]) {
      const { message } = await failure(open({ url, migrations, ...more }));
      expect(message).to.include("is of a newer version, which applied `0002-sealed-note`");
    }
  });

  it("refuses an owner of another database, and a login that was granted nothing.", async () => {
    const other = await createTestDatabase(NONE);
    const elsewhere = urlOf(url, new URL(other.url).pathname.slice(1));
    expect((await failure(open({ url: elsewhere, ownerUrl: test.ownerUrl }))).message).to.include("the same database");
    await asOwner(`revoke all on schema_migration from ${role}`);
    expect((await failure(open({ url }))).message).to.include(`or \`${role}\` may not read it`);
    await asOwner(`grant select on schema_migration to ${role}`);
    await other.drop();
  });

  it("names what is wrong with the owner's URL.", async () => {
    const wrong = urlOf(test.ownerUrl, "no_such_database");
    expect((await failure(open({ url, ownerUrl: wrong }))).message).to.include("no_such_database");
  });
});
