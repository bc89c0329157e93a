import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { insertOnly, runMigrations } from "../../src/store/migrate.ts";
import { MIGRATIONS } from "../../src/store/migrations.ts";
import {
  createTestDatabase,
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
    expect(await runMigrations(database.url, options)).to.deep.equal({ applied: NAMES, role: "acp_app" });
    expect(await runMigrations(database.url, options)).to.deep.equal({ applied: [], role: "acp_app" });
  });

  it("applies each migration once when three processes run them at the same time.", async () => {
    const reports = await Promise.all([1, 2, 3].map(() => migrateInChild(database.url)));
    expect(reports.flatMap(({ applied }) => applied)).to.deep.equal(NAMES);
    expect(reports.map(({ role }) => role)).to.deep.equal(["acp_app", "acp_app", "acp_app"]);
  });

  it("applies nothing when one of them fails.", async () => {
    const failed = await runMigrations(database.url, { migrations: BROKEN_MIGRATIONS, log: SILENT_LOG }).catch(
      (e) => e,
    );
    expect(failed).to.be.instanceOf(Error);
    expect(await codeOf(database.url, "select from half_done")).to.equal("42P01");
    expect(await codeOf(database.url, "select from note")).to.equal("42P01");
  });
});

describe("createTestDatabase", () => {
  it("gives every caller a database of its own with the product's migrations applied.", async () => {
    const [one, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
    expect(one.url).not.to.equal(other.url);
    const { applied } = await runMigrations(one.url, { migrations: MIGRATIONS, log: SILENT_LOG });
    expect(applied).to.deep.equal([]);
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
      expect(await codeOf(database.url, change)).to.equal("42501");
      expect(await codeOf(database.url, "set session_replication_role = replica", change)).to.equal("42501");
    });

    it(`leaves the application's role no right to \`${change}\`.`, async () => {
      const withoutTrigger = "alter table sealed_note disable trigger insert_only";
      const steps = ["begin", withoutTrigger, "set role acp_app", change];
      expect(await codeOf(database.url, ...steps)).to.equal("42501");
    });
  }

  it("lets the application's role insert and read, and change ordinary tables.", async () => {
    const sealed = ["insert into sealed_note values (1, 'a')", "select * from sealed_note"];
    const plain = ["insert into note (body) values ('a')", "update note set body = 'b'", "delete from note"];
    expect(await codeOf(database.url, "set role acp_app", ...sealed, ...plain)).to.equal(undefined);
    expect(await codeOf(database.url, "set role acp_app", "delete from schema_migration")).to.equal("42501");
    expect(await codeOf(database.url, "set role acp_app", "drop table note")).to.equal("42501");
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
    const server = await startEmbeddedPostgres({ dataDir, rootHome, log: SILENT_LOG, durable: false });
    stop = server.stop;
    await withClient(server.url, async (client) => {
      await client.query(`create role ${owner.name} login password '${owner.password}'`);
      await client.query(`create database plain owner ${owner.name}`);
    });
    url = urlOf(server.url, "plain");
  });

  after(async () => {
    await stop?.();
    await removeAll(home);
  });

  it("who may not create roles migrates, is protected by triggers and is told so.", async () => {
    const warnings: string[] = [];
    const log = { ...SILENT_LOG, warn: (_: object, message: string) => void warnings.push(message) };
    const own = urlOf(url, "plain", owner);
    expect(await runMigrations(own, { migrations: TINY_MIGRATIONS, log })).to.deep.equal({
      applied: NAMES,
      role: null,
    });
    expect(warnings.join()).to.include("triggers alone");
    expect(await codeOf(own, "delete from sealed_note")).to.equal("42501");
  });

  it("who may create roles gets the application's role on the next start.", async () => {
    await withClient(url, (client) => client.query(`alter role ${owner.name} createrole`));
    const own = urlOf(url, "plain", owner);
    expect((await runMigrations(own, { migrations: TINY_MIGRATIONS, log: SILENT_LOG })).role).to.equal("acp_app");
    expect(await codeOf(own, "set role acp_app", "insert into note (body) values ('a')")).to.equal(undefined);
    expect(await codeOf(own, "set role acp_app", "delete from sealed_note")).to.equal("42501");
  });
});
