/* What a pooler of transactions does to the connections of the service, and what its faults are to callers. */
import { expect } from "chai";
import type { PoolClient } from "pg";
import { ControlPlaneError, ErrorReason } from "../../src/errors.ts";
import { type Database, loginOf, openDatabase, stored } from "../../src/store/database.ts";
import { type Gate, startGate, until } from "../log/gate.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, withClient } from "../support/database.ts";
import { describeWithPackages } from "../support/debian.ts";
import { LOGIN_LIMITS, type Pooler, sessionUrlOf, startPooler } from "../support/pooler.ts";
import { NONE, TINY_MIGRATIONS } from "./tiny-migrations.ts";

/** Characters that a pooler forwards in many pieces. */
const LONG = 300_000;
/** Milliseconds until a query is given up: enough for those that are answered on a busy machine. */
const UNANSWERED_MS = 4_000;

describeWithPackages("a pool behind a pooler of transactions", ["pgbouncer"], () => {
  let test: TestDatabase;
  let direct: string;
  /** Between the pooler and the database. */
  let far: Gate;
  let pooler: Pooler;
  /** Between the service and the pooler. */
  let near: Gate;
  let database: Database;

  before(async () => {
    test = await createTestDatabase(NONE);
    direct = sessionUrlOf(test.url);
    const login = loginOf(direct);
    const role = `alter role "${login}" in database ${new URL(direct).pathname.slice(1)}`;
    const limits = LOGIN_LIMITS.map((limit) => `${role} set ${limit}`);
    await withClient(test.ownerUrl, (client) => client.query(limits.join("; ")));
    far = await startGate(direct);
    pooler = await startPooler(far.url);
  });
  after(async () => {
    await pooler.stop();
    far.close();
    await test.drop();
  });
  beforeEach(async () => {
    near = await startGate(pooler.url);
    database = await open();
  });
  afterEach(async () => {
    await database.close();
    near.close();
  });

  function open(more: { answerMs?: number } = {}): Promise<Database> {
    const options = { poolSize: 4, log: SILENT_LOG, migrations: TINY_MIGRATIONS, ...more };
    return openDatabase({ url: near.url, ownerUrl: test.ownerUrl, directUrl: direct, ...options });
  }

  async function reasonOf(work: PromiseLike<unknown>): Promise<string> {
    const fault = await stored(work).then(
      () => expect.fail("it was answered"),
      (error: unknown) => error,
    );
    return fault instanceof ControlPlaneError ? ErrorReason[fault.reason] : String(fault);
  }

  it("gets every answer to its own question, however many are asked at once on its connections.", async () => {
    const ask = async (client: PoolClient, index: number): Promise<void> => {
      const text = String(index % 10).repeat(LONG);
      const [one, other] = await Promise.all([
        client.query("select $1::int as index", [index]),
        client.query({ name: "echo", text: "select $1::text as text", values: [text] }),
      ]);
      expect(one.rows).to.deep.equal([{ index }]);
      expect(other.rows[0].text === text, `text ${index}`).to.equal(true);
    };
    const clients = await Promise.all([1, 2, 3, 4].map(() => database.pool.connect()));
    for (const client of clients) client.on("error", () => undefined);
    const asked = clients.map(async (client, at) => {
      for (let round = 0; round < 40; round++) await ask(client, round * clients.length + at);
    });
    await Promise.all(asked).finally(() => {
      for (const client of clients) client.release(true);
    });
  });

  it("answers those that ask through callbacks, faults included.", async () => {
    const client = await database.pool.connect();
    const told: unknown[] = [];
    await new Promise<void>((done) => {
      client.query("select 1 as one", (_, { rows }) => void told.push(rows[0]));
      client.query("select no_such_column", (error) => void told.push(error.message));
      client.query("select $1::int as one", [2], (_, { rows }) => {
        told.push(rows[0]);
        done();
      });
    });
    expect(told).to.deep.equal([{ one: 1 }, 'column "no_such_column" does not exist', { one: 2 }]);
    client.release();
  });

  it("calls the loss of a session behind the pooler an outage, and serves on.", async () => {
    const impatient = await open({ answerMs: UNANSWERED_MS });
    const client = await database.pool.connect();
    client.on("error", () => undefined);
    await client.query("begin");
    const asked = ["select pg_sleep(60)", "select 1"].map((text) => reasonOf(client.query(text)));
    const isAsked = "select 1 from pg_stat_activity where query = 'select pg_sleep(60)'";
    await until(async () => (await withClient(test.ownerUrl, (owner) => owner.query(isAsked))).rows.length === 1);
    far.shut();
    expect(await Promise.all(asked)).to.deep.equal(["STORE_UNAVAILABLE", "STORE_UNAVAILABLE"]);
    client.release(true);
    // The pooler holds what it cannot send on.
    expect(await reasonOf(impatient.pool.query("select 1"))).to.equal("STORE_UNAVAILABLE");
    await impatient.close();
    far.open();
    await until(() =>
      database.pool.query("select 1").then(
        () => true,
        () => false,
      ),
    );
  });

  it("calls a message that PostgreSQL itself finds wrong no outage.", async () => {
    expect(await reasonOf(database.pool.query("select $1::int, $2::int", [1]))).to.match(
      /^error: bind message supplies 1 parameters/,
    );
  });

  it("gives up what is not answered, with what waits behind it, and gives the connections back.", async () => {
    const impatient = await open({ answerMs: UNANSWERED_MS });
    const { pool, orm } = impatient;
    const [client, other] = await Promise.all([pool.connect(), pool.connect()]);
    client.on("error", () => undefined);
    other.release();
    near.freeze();
    const transaction = orm.em.fork().transactional((em) => em.getConnection().execute("select 1"));
    const asked = [transaction, client.query("select 1"), client.query("select 2")];
    for (const each of asked) expect(await reasonOf(each)).to.equal("STORE_UNAVAILABLE");
    client.release(true);
    for (const _ of [1, 2, 3, 4, 5]) {
      expect((await pool.query("select 1 as one")).rows).to.deep.equal([{ one: 1 }]);
    }
    await impatient.close();
  });
});
