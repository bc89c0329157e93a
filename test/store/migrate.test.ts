import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { loginOf } from "../../src/store/database.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { readExcessRights } from "../../src/store/login-rights.ts";
import { insertOnly, runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import {
  createTestDatabase,
  FAST_SETTINGS,
  removeAll,
  SILENT_LOG,
  type TestDatabase,
  urlOf,
  withClient,
} from "../support/database.ts";
import { migrateInChild } from "./child.ts";
import { BROKEN_MIGRATIONS, NONE, TINY_MIGRATIONS } from "./tiny-migrations.ts";

const NAMES = TINY_MIGRATIONS.map(({ name }) => name);

async function codeOf(url: string, ...statements: readonly string[]): Promise<string | undefined> {
  return withClient(url, async (client) => {
    try {
      for (const statement of statements) await client.query(statement);
      return undefined;
    } catch (error) {
      return (error as { code: string }).code;
    }
  });
}

describe("runMigrations", () => {
  let database: TestDatabase;

  beforeEach(async () => {
    database = await createTestDatabase(NONE);
  });

  afterEach(() => database.drop());

  it("applies every migration in order, and nothing on a second run.", async () => {
    const options = { migrations: TINY_MIGRATIONS, log: SILENT_LOG };
    expect(await runMigrations(database.ownerUrl, options)).to.deep.equal(NAMES);
    expect(await runMigrations(database.ownerUrl, options)).to.deep.equal([]);
  });

  it("takes from the login that serves whatever else it was granted.", async () => {
    const options = { migrations: TINY_MIGRATIONS, login: loginOf(database.url), log: SILENT_LOG };
    await runMigrations(database.ownerUrl, options);
    const everything = `grant all on all tables in schema public to ${options.login}; grant all on schema public to ${options.login}`;
    await withClient(database.ownerUrl, (client) => client.query(everything));
    expect(await withClient(database.url, readExcessRights)).to.include("TRIGGER on table sealed_note");
    await runMigrations(database.ownerUrl, options);
    expect(await withClient(database.url, readExcessRights)).to.deep.equal([]);
  });

  it("applies each migration once when three processes run them at the same time.", async () => {
    const login = loginOf(database.url);
    const reports = await Promise.all([1, 2, 3].map(() => migrateInChild(database.ownerUrl, login)));
    expect(reports.flat()).to.deep.equal(NAMES);
    expect(await codeOf(database.url, "insert into note (body) values ('a')")).to.equal(undefined);
  });

  it("applies nothing when one of them fails.", async () => {
    const failed = await runMigrations(database.ownerUrl, { migrations: BROKEN_MIGRATIONS, log: SILENT_LOG }).catch(
      (e) => e,
    );
    expect(failed).to.be.instanceOf(Error);
    expect(await codeOf(database.ownerUrl, "select from half_done")).to.equal("42P01");
    expect(await codeOf(database.ownerUrl, "select from note")).to.equal("42P01");
  });
});

describe("createTestDatabase", () => {
  it("gives every caller a database of its own with the product's migrations applied.", async () => {
    const [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    expect(one.url).not.to.equal(other.url);
    expect(await runMigrations(one.ownerUrl, { migrations: MIGRATIONS, log: SILENT_LOG })).to.deep.equal([]);
    expect(await codeOf(other.url, "select from ledger_entry")).to.equal(undefined);
    await Promise.all([one.drop(), other.drop()]);
  });
});

describe("insertOnly", () => {
  let database: TestDatabase;
  const CHANGES = ["update sealed_note set body = 'x'", "delete from sealed_note where false", "truncate sealed_note"];

  before(async () => {
    database = await createTestDatabase(TINY_MIGRATIONS);
  });

  after(() => database.drop());

  for (const change of CHANGES) {
    it(`refuses \`${change}\` to the owner, in a replication session too.`, async () => {
      expect(await codeOf(database.ownerUrl, change)).to.equal("42501");
      expect(await codeOf(database.ownerUrl, "set session_replication_role = replica", change)).to.equal("42501");
    });

    it(`leaves the login that serves no right to \`${change}\`, trigger or not.`, async () => {
      const withoutTrigger = "alter table sealed_note disable trigger insert_only";
      const steps = ["begin", withoutTrigger, `set local role ${loginOf(database.url)}`, change];
      expect(await codeOf(database.ownerUrl, ...steps)).to.equal("42501");
    });
  }

  it("lets the login that serves insert and read, and change ordinary tables.", async () => {
    const sealed = ["insert into sealed_note values (1, 'a')", "select * from sealed_note"];
    const plain = ["insert into note (body) values ('a')", "update note set body = 'b'", "delete from note"];
    expect(await codeOf(database.url, ...sealed, ...plain)).to.equal(undefined);
    expect(await codeOf(database.url, "delete from schema_migration")).to.equal("42501");
    expect(await codeOf(database.url, "drop table note")).to.equal("42501");
  });

  it("refuses a name that would have to be quoted.", () => {
    expect(() => insertOnly('note"; drop table note')).to.throw(TypeError);
  });
});

describe("an owner with few rights", () => {
  let home: string;
  const owner = { name: "plain_owner", password: "plain" };
  let stop: (() => Promise<void>) | undefined;
  let url: string;

  before(async () => {
    home = await mkdtemp(join(tmpdir(), "acp-owner-"));
    const [dataDir, rootHome] = [join(home, "data"), join(home, "lib")];
    // A temporary directory is closed to others; opened, everything of root's server stays in it as well.
    await chmod(home, 0o755);
    const server = await startEmbeddedPostgres({ dataDir, rootHome, log: SILENT_LOG, settings: FAST_SETTINGS });
    stop = server.stop;
    await withClient(server.ownerUrl, async (client) => {
      await client.query(`create role ${owner.name} login password '${owner.password}'`);
      await client.query("create role plain_login login password 'plain'");
      await client.query(`create database plain owner ${owner.name}`);
    });
    url = urlOf(server.ownerUrl, "plain");
  });

  after(async () => {
    await stop?.();
    await removeAll(home);
  });

  it("who may not create roles migrates, and grants a login that exists what it needs.", async () => {
    const own = urlOf(url, "plain", owner);
    const options = { migrations: TINY_MIGRATIONS, login: "plain_login", log: SILENT_LOG };
    expect(await runMigrations(own, options)).to.deep.equal(NAMES);
    expect(await codeOf(own, "delete from sealed_note")).to.equal("42501");
    const served = urlOf(url, "plain", { name: "plain_login", password: "plain" });
    expect(await withClient(served, readExcessRights)).to.deep.equal([]);
    expect(await codeOf(served, "insert into note (body) values ('a')")).to.equal(undefined);
    expect(await codeOf(served, "delete from sealed_note")).to.equal("42501");
  });
});
