import { connect, createServer } from "node:net";
import { pipeline } from "node:stream";
import { expect } from "chai";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { addressOf, type Database, loginOf, openDatabase, stored, waitForDatabase } from "../../src/store/database.ts";
import { startGate, until } from "../log/gate.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, urlOf } from "../support/database.ts";
import { directUrlOf, sessionUrlOf } from "../support/pooler.ts";
import { NONE, TINY_MIGRATIONS } from "./tiny-migrations.ts";

const ADDRESSES = [
  { url: "postgresql://u:hunter2@db.example.com/acp", want: "db.example.com:5432" },
  { url: "postgresql://u:hunter2@[::1]:6000/acp", want: "[::1]:6000" },
  { url: "postgresql:///acp?host=/run/postgresql", want: "/run/postgresql" },
];

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address ? address.port : 0;
}

async function failureOf(url: string): Promise<ControlPlaneError> {
  const error = await waitForDatabase(url, 300, SILENT_LOG).catch((each: unknown) => each);
  expect(error).to.be.instanceOf(ControlPlaneError);
  expect((error as Error).message).not.to.include("hunter2");
  expect((error as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
  return error as ControlPlaneError;
}

describe("openDatabase", () => {
  let test: TestDatabase;
  let database: Database;

  before(async () => {
    test = await createTestDatabase(NONE);
    const { url, ownerUrl } = test;
    const options = { poolSize: 3, log: SILENT_LOG, migrations: TINY_MIGRATIONS };
    database = await openDatabase({ url, ownerUrl, directUrl: directUrlOf(url), ...options });
  });

  after(async () => {
    await database.close();
    await test.drop();
  });

  it("migrates as the owner, and serves as the login without rights on every connection.", async () => {
    expect(database.excessRights).to.deep.equal([]);
    const clients = await Promise.all([1, 2, 3].map(() => database.pool.connect()));
    const results = await Promise.all(clients.map((client) => client.query("select session_user as name")));
    for (const client of clients) client.release();
    const login = loginOf(test.url);
    expect(results.map(({ rows }) => rows[0].name)).to.deep.equal([login, login, login]);
    expect(login).not.to.equal(loginOf(test.ownerUrl));
  });

  it("leaves no connection of the owner open.", async () => {
    const { rows } = await database.pool.query(
      "select usename from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    expect(rows.map(({ usename }) => usename)).not.to.include(loginOf(test.ownerUrl));
  });

  it("shares one pool of the given size between the ORM and plain statements.", async () => {
    await database.orm.em.fork().execute("insert into note (body) values ('from the orm')");
    const { rows } = await database.pool.query("select body from note");
    expect(rows).to.deep.equal([{ body: "from the orm" }]);
    expect(database.pool.options.max).to.equal(3);
    expect(database.pool.totalCount).to.be.at.most(3);
  });

  it("refuses a change of an insert-only table through the pool.", async () => {
    await database.pool.query("insert into sealed_note values (1, 'kept')");
    const error = await database.pool.query("delete from sealed_note").catch((each: unknown) => each);
    expect((error as { code: string }).code).to.equal("42501");
  });

  it("survives the loss of its connections.", async () => {
    const { rows } = await database.pool.query("select pg_backend_pid() as pid");
    await database.pool.query("select pg_terminate_backend($1)", [rows[0].pid]).catch(() => undefined);
    expect((await database.pool.query("select 1 as one")).rows).to.deep.equal([{ one: 1 }]);
  });

  it("gives up queries on connections that lead nowhere, and serves on over new ones.", async () => {
    const gate = await startGate(test.url);
    const options = { poolSize: 3, log: SILENT_LOG, migrations: TINY_MIGRATIONS, answerMs: 2_000 };
    const behind = await openDatabase({ url: gate.url, ownerUrl: test.ownerUrl, ...options });
    const read = () => stored(behind.pool.query("select pg_sleep(0.05)"));
    await Promise.all([read(), read(), read()]);
    gate.freeze();
    const transaction = behind.orm.em.fork().transactional((em) => em.getConnection().execute("select 1"));
    for (const given of await Promise.allSettled([stored(transaction), read(), read()])) {
      expect(given.status).to.equal("rejected");
      const { reason } = given as PromiseRejectedResult;
      expect((reason as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
    }
    const { rows } = await behind.pool.query("select 1 as one");
    expect(rows).to.deep.equal([{ one: 1 }]);
    await behind.close();
    gate.close();
  });

  it("is closed in time, though its connections lead nowhere.", async () => {
    const gate = await startGate(test.url);
    const options = { poolSize: 3, log: SILENT_LOG, migrations: TINY_MIGRATIONS };
    const behind = await openDatabase({ url: gate.url, ownerUrl: test.ownerUrl, ...options });
    await Promise.all([1, 2].map(() => behind.pool.query("select pg_sleep(0.05)")));
    gate.freeze();
    const unanswered = stored(behind.pool.query("select 1")).catch((error: unknown) => error);
    await until(() => behind.pool.idleCount < behind.pool.totalCount);
    behind.cutAfter(300);
    await behind.close();
    expect(((await unanswered) as ControlPlaneError).reason).to.equal(ErrorReason.STORE_UNAVAILABLE);
    gate.close();
  });

  const openOther = (): Promise<Database> => {
    const options = { poolSize: 2, log: SILENT_LOG, migrations: TINY_MIGRATIONS };
    return openDatabase({ url: test.url, directUrl: directUrlOf(test.url), ...options });
  };

  it("leaves no connection open when it is closed, whoever used them.", async () => {
    const usedBy = {
      nobody: async () => undefined,
      plain: (each: Database) => each.pool.query("select 1"),
      orm: (each: Database) => each.orm.em.fork().execute("select 1"),
    };
    for (const [name, use] of Object.entries(usedBy)) {
      const other = await openOther();
      await use(other);
      await other.close();
      expect(other.pool.ended, name).to.equal(true);
      expect(other.pool.totalCount, name).to.equal(0);
    }
  });

  it("may be closed twice.", async () => {
    const other = await openOther();
    await Promise.all([other.close(), other.close()]);
    await other.close();
  });
});

describe("waitForDatabase", () => {
  it("names host and port of a server that is not there, and never the password.", async () => {
    const port = await closedPort();
    const error = await failureOf(`postgresql://u:hunter2@127.0.0.1:${port}/acp`);
    expect(error.message).to.match(
      new RegExp(`^postgresql at \`127.0.0.1:${port}\` cannot be reached: .*ECONNREFUSED`),
    );
    expect(error.metadata).to.deep.equal({ address: `127.0.0.1:${port}` });
  });

  it("gives the reason of a host with several addresses.", async () => {
    const error = await failureOf(`postgresql://u:hunter2@localhost:${await closedPort()}/acp`);
    expect(error.message).to.match(/cannot be reached: .*ECONNREFUSED/);
  });

  it("does not wait when the database refuses the user or does not exist.", async () => {
    const test = await createTestDatabase(NONE);
    const url = sessionUrlOf(test.url);
    const wrong = urlOf(url, new URL(url).pathname.slice(1), { name: "nobody_known", password: "hunter2" });
    expect((await failureOf(wrong)).message).to.include("refuses the connection: password authentication failed");
    expect((await failureOf(urlOf(url, "no_such_database"))).message).to.include("does not exist");
    await test.drop();
  });

  it("waits for a server that is still starting.", async () => {
    const test = await createTestDatabase(NONE);
    const port = await closedPort();
    const target = new URL(test.url);
    const forward = createServer((socket) => {
      pipeline(socket, connect(Number(target.port), target.hostname), socket, () => undefined);
    });
    const late = new URL(test.url);
    late.port = String(port);
    const waiting = waitForDatabase(late.href, 10_000, SILENT_LOG);
    setTimeout(() => forward.listen(port, "127.0.0.1"), 400);
    await waiting;
    await new Promise((resolve) => forward.close(resolve));
    await test.drop();
  });
});

describe("addressOf", () => {
  for (const { url, want } of ADDRESSES) {
    it(`shows ${want} of an address with a password.`, () => {
      expect(addressOf(url)).to.equal(want);
    });
  }
});
