import { randomBytes } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { createEncryptor } from "../../src/store/encryptor.ts";
import { reencrypt, SEALED_COLUMNS } from "../../src/store/reencrypt.ts";
import { createTestDatabase, SILENT_LOG, type TestDatabase, withClient } from "../support/database.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";

const ADMIN_KEY = "an-admin-key-of-the-test";
const PERSON = "Wilhelmina Ockerbloom";
/** Keys that follow each other. */
const [FIRST, SECOND, THIRD] = Array.from({ length: 3 }, () => randomBytes(32).toString("base64")) as [
  string,
  string,
  string,
];

describe("replacing the encryption key", () => {
  let database: TestDatabase;
  let server: ServedHere | undefined;

  before(async () => {
    database = await createTestDatabase();
  });
  after(async () => {
    await server?.stop();
    await database?.drop();
  });

  /** Starts the service with keys, in place of the one that runs. */
  async function start(present: string, earlier?: string): Promise<void> {
    await server?.stop();
    server = undefined;
    const old: Record<string, string> = earlier === undefined ? {} : { ACP_ENCRYPTION_KEY_OLD: earlier };
    server = await serveHere({
      databaseUrl: database.url,
      env: {
        ACP_ADMIN_KEY: ADMIN_KEY,
        ACP_ENCRYPTION_KEY: present,
        ACP_MCP_ALLOW: "127.0.0.0/8",
        ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
        ...old,
      },
    });
  }

  async function call(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; json: Record<string, unknown> }> {
    const headers = { "x-api-key": ADMIN_KEY, "content-type": "application/json" };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${server?.http}${path}`, { method, headers, ...sent });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  }

  const values = { values: [{ kind: "person_name", value: PERSON }] };
  /** Statuses of what can be read only with the right key: settings, values, and a scrubbed text. */
  async function read(): Promise<unknown> {
    const settings = await call("GET", "/api/redact/default/settings");
    const listed = await call("GET", "/api/redact/default/values");
    const scrubbed = await call("POST", "/api/redact/default/scrub", { text: `mail ${PERSON}` });
    return [settings.status, listed.status, JSON.stringify(scrubbed.json).includes(PERSON)];
  }
  const READABLE = [200, 200, false];

  /** The encrypted bytes of each column, by table and column. */
  async function sealed(): Promise<Record<string, readonly Buffer[]>> {
    return withClient(database.ownerUrl, async (client) => {
      const found: Record<string, readonly Buffer[]> = {};
      for (const { table, column } of SEALED_COLUMNS) {
        const { rows } = await client.query(`select ${column} as bytes from ${table} where ${column} is not null`);
        found[`${table}.${column}`] = rows.map(({ bytes }) => bytes as Buffer);
      }
      return found;
    });
  }

  it("knows every column of the schema that holds encrypted bytes.", async () => {
    const { rows } = await withClient(database.ownerUrl, (client) =>
      client.query(`select table_name || '.' || column_name as name from information_schema.columns
        where table_schema = 'public' and data_type = 'bytea' and column_name like 'sealed%' order by 1`),
    );
    const known = SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`).sort();
    expect(known).to.deep.equal(rows.map(({ name }) => name as string));
  });

  it("keeps everything readable through the whole way, and needs the earlier key no longer at its end.", async () => {
    await start(FIRST);
    const registered = await call("POST", "/api/redact/default/values", values);
    const made = [
      registered,
      await call("POST", "/v1/enforce/webhooks", { url: "http://127.0.0.1:9/", events: ["agent.revoked"] }),
      await call("POST", "/v1/enforce/mcp-servers", {
        name: "bank",
        url: "http://127.0.0.1:9/mcp",
        headers: [{ name: "authorization", value: "Bearer sesame" }],
      }),
      await call("POST", "/api/redact/default/webhooks", { url: "http://127.0.0.1:9/", secret: "shared" }),
      await call("PUT", "/api/redact/default/settings", { restore_values: true, allow: ["ACME"] }),
    ];
    for (const { status, json } of made) expect(status, JSON.stringify(json)).to.equal(200);
    expect(await read()).to.deep.equal(READABLE);
    const before = await sealed();

    // Processes learn the next key first, and write under the present one.
    await start(FIRST, SECOND);
    expect(await sealed()).to.deep.equal(before);
    await start(SECOND, FIRST);
    expect(await read()).to.deep.equal(READABLE);
    const after = await sealed();
    for (const [column, rows] of Object.entries(before)) {
      expect(after[column], column).to.have.length(rows.length);
      for (const [at, bytes] of rows.entries()) expect(after[column]?.[at]?.equals(bytes), column).to.equal(false);
    }
    expect(server?.output()).to.include("start without ACP_ENCRYPTION_KEY_OLD");
    await start(SECOND);
    expect(await read()).to.deep.equal(READABLE);
    expect(await call("POST", "/api/redact/default/values", values)).to.deep.equal({
      status: 200,
      json: { ...registered.json, added: 0 },
    });
    expect(await sealed()).to.deep.equal(after);
  });

  it("leaves every value readable when it is cut off anywhere, and when two processes do it at once.", async () => {
    const pool = new pg.Pool({ connectionString: database.url, max: 4 });
    const encryptor = createEncryptor(THIRD, SECOND);
    try {
      let updates = 0;
      const failing = {
        query(text: string, parameters: unknown[]) {
          if (text.startsWith("update") && ++updates > 2) throw new Error("cut off");
          return pool.query(text, parameters);
        },
      };
      const options = { encryptor, log: SILENT_LOG };
      await reencrypt({ ...options, pool: failing as never }).then(
        () => expect.fail("it was not cut off"),
        (error: Error) => expect(error.message).to.equal("cut off"),
      );
      await start(SECOND, THIRD);
      expect(await read()).to.deep.equal(READABLE);
      await server?.stop();
      server = undefined;
      await Promise.all([reencrypt({ ...options, pool }), reencrypt({ ...options, pool })]);
    } finally {
      await pool.end();
    }
    await start(THIRD);
    expect(await read()).to.deep.equal(READABLE);
  });

  it("keeps what neither key can read, and says so.", async () => {
    const before = await sealed();
    await start(FIRST, SECOND);
    expect(server?.output()).to.include("readable under neither encryption key");
    expect(await sealed()).to.deep.equal(before);
  });
});
