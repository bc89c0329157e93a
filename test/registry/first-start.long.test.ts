import { mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { versionOf } from "../../src/version.ts";
import { createTestDatabase, removeAll, type TestDatabase } from "../support/database.ts";
import { startServer } from "../support/server.ts";

const GENERATED = /acp_[A-Za-z0-9_-]{20,}/;

describe("the notice of a start", () => {
  let database: TestDatabase;
  let directory: string;
  beforeEach(async () => {
    database = await createTestDatabase([]);
    directory = await mkdtemp(join(tmpdir(), "acp-first-start-"));
  });
  afterEach(async () => {
    await database.drop();
    await removeAll(directory);
  });

  async function noticeOf(env: Readonly<Record<string, string>>): Promise<string> {
    const own = { ACP_DATA_DIR: directory, ACP_DATABASE_OWNER_URL: database.ownerUrl };
    const server = await startServer({ databaseUrl: database.url, env: { ...own, ...env } });
    await server.stop();
    return server.output();
  }

  /** Says why a start on a PostgreSQL of its own fails. */
  const failureOf = (env: Readonly<Record<string, string>>): Promise<string> =>
    noticeOf(env).then(
      () => "it started",
      (error: Error) => error.message,
    );

  for (const [name, command] of [
    ["ACP_SIGNING_KEY", "openssl ecparam -name prime256v1 -genkey -noout -out signing-key.pem"],
    ["ACP_ENCRYPTION_KEY", "openssl rand -base64 32"],
    ["ACP_ADMIN_KEY", "openssl rand -hex 24"],
  ] as const) {
    it(`says how to make ${name} when a PostgreSQL of its own has none, and generates no key.`, async () => {
      const failure = await failureOf({ [name]: "" });
      expect(failure).to.contain("ended with 2 before it listened");
      expect(failure).to.contain(`${name} must be set`).and.contain(`\`${command}\``);
      expect(await readdir(directory)).to.deep.equal([]);
    });
  }

  it("needs no admin key in the environment once the database has one.", async () => {
    await noticeOf({});
    expect(await noticeOf({ ACP_ADMIN_KEY: "" })).to.contain("shown by the start that generated it");
  });

  it("names the keys that an earlier start generated, in place of making others.", async () => {
    await writeFile(join(directory, "signing-key.pem"), "");
    await writeFile(join(directory, "encryption-key"), "");
    const failure = await failureOf({ ACP_SIGNING_KEY: "", ACP_ENCRYPTION_KEY: "" });
    expect(failure).to.contain(`ACP_SIGNING_KEY=${join(directory, "signing-key.pem")}\n`);
    expect(failure).to.contain(`ACP_ENCRYPTION_KEY="$(cat '${join(directory, "encryption-key")}')"`);
    expect(failure).not.to.contain("openssl");
  });

  it("names the version, and no example agent on a PostgreSQL of its own.", async () => {
    const notice = await noticeOf({});
    expect(notice).to.contain(`Agent Control Plane ${versionOf()}\n`);
    expect(notice).to.contain('"agent_id":"<agent_id>"');
  });

  it("shows a key that it generated on the embedded PostgreSQL once, and then names the file that keeps it.", async function () {
    this.timeout(300_000);
    const own = { ACP_DATA_DIR: join(directory, "data"), ACP_ADMIN_KEY: "" };
    const start = async (workers: string): Promise<string> => {
      const server = await startServer({ env: { ...own, ACP_WORKERS: workers } });
      await server.stop();
      return server.output();
    };
    const first = await start("1");
    const path = join(own.ACP_DATA_DIR, "admin-key");
    const secret = (await readFile(path, "utf8")).trim();
    expect(first)
      .to.contain(`${secret}  (kept in ${path}, not shown again)`)
      .and.to.match(/"agent_id":"agt_/);
    expect(first.split(secret)).to.have.length(2);
    // Workers are given no key either.
    const second = await start("2");
    expect(second).to.contain(`admin key                in ${path}`).and.to.contain(`"X-API-Key: $(cat '${path}')"`);
    expect(second).not.to.match(GENERATED);
  });

  it("warns when the ports can be reached from other machines.", async () => {
    const warning = "ACP_HOST is not loopback";
    expect(await noticeOf({ ACP_HOST: "0.0.0.0" })).to.contain(warning);
    expect(await noticeOf({ ACP_HOST: "127.0.0.1" })).not.to.contain(warning);
  });

  it("never shows a configured admin key.", async () => {
    const given = "a-key-that-somebody-chose";
    for (const start of [1, 2]) {
      const notice = await noticeOf({ ACP_ADMIN_KEY: given });
      expect(notice, `start ${start}`).to.contain('"X-API-Key: $ACP_ADMIN_KEY"').and.not.to.contain(given);
    }
  });
});
