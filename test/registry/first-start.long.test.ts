import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
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
    await rm(directory, { recursive: true });
  });

  async function noticeOf(env: Readonly<Record<string, string>>): Promise<string> {
    const own = { ACP_DATA_DIR: directory, ACP_DATABASE_OWNER_URL: database.ownerUrl };
    const server = await startServer({ databaseUrl: database.url, env: { ...own, ...env } });
    await server.stop();
    return server.output();
  }

  it("shows a generated admin key once, and then names the file that keeps it.", async () => {
    const first = await noticeOf({ ACP_ADMIN_KEY: "" });
    const path = join(directory, "admin-key");
    const secret = (await readFile(path, "utf8")).trim();
    expect(first).to.contain(`${secret}  (kept in ${path}, not shown again)`);
    expect(first.split(secret)).to.have.length(2);
    const second = await noticeOf({ ACP_ADMIN_KEY: "" });
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
