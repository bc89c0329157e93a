import { generateKeyPairSync } from "node:crypto";
import { chmod, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { createTestDatabase, removeAll, type TestDatabase, withClient } from "../support/database.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { type ServedHere, serveHere } from "../support/served-here.ts";
import { agentctl } from "./harness.ts";

const PEM = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" });
const SECRET = "hunter2-hunter2-hunter2-hunter2-hunter2";

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly text: string;
}

describe("agentctl doctor", () => {
  let database: TestDatabase;
  let folder: string;
  let env: Record<string, string>;

  before(async () => {
    database = await createTestDatabase();
    folder = await mkdtemp(join(tmpdir(), "acp-doctor-"));
    env = {
      DATABASE_URL: sessionUrlOf(database.url),
      ACP_SIGNING_KEY: PEM.toString(),
      ACP_ENCRYPTION_KEY: SECRET,
      ACP_ADMIN_KEY: SECRET,
      ACP_DATA_DIR: join(folder, "data"),
      ACP_HTTP_PORT: "0",
      ACP_GRPC_PORT: "0",
    };
  });
  after(async () => {
    await database.drop();
    await removeAll(folder);
  });

  /** Runs it; gives the exit code and everything that it found wrong. */
  async function wrongWith(more: Record<string, string>): Promise<{ code: number; wrong: string[]; text: string }> {
    const run = await agentctl(["doctor", "--json"], { ...env, ...more });
    const { findings } = run.json() as unknown as { findings: Finding[] };
    const wrong = findings.filter(({ status }) => status === "wrong").map(({ check, text }) => `${check}: ${text}`);
    return { code: run.code, wrong, text: run.stdout };
  }

  it("finds nothing wrong with a service that can start, and prints what is in effect with secrets masked", async () => {
    const { code, stdout } = await agentctl(["doctor"], env);
    expect([code, stdout.split("\n")[0]]).to.deep.equal([0, "HEALTHY: nothing is wrong"]);
    expect(stdout)
      .to.match(/ok +database: PostgreSQL \d.* answers/)
      .and.to.match(/ok +database: all \d+ migrations/);
    expect(stdout).to.contain("  ACP_ADMIN_KEY = ***  [environment]\n").and.contain(`[environment]`);
    const { text } = await wrongWith({});
    const { password } = new URL(sessionUrlOf(database.url));
    for (const secret of [SECRET, password, "BEGIN PRIVATE KEY"]) {
      expect(stdout).not.to.contain(secret);
      expect(text).not.to.contain(secret);
    }
    const { settings } = JSON.parse(text) as { settings: { name: string }[] };
    expect(settings.map(({ name }) => name)).to.include.members(["ACP_WORKERS", "DATABASE_URL"]);
  });

  it("tells every wrong setting", async () => {
    const { code, wrong } = await wrongWith({ ACP_WORKERS: "many", ACP_POOL_SIZE: "0" });
    expect(code).to.equal(1);
    expect(wrong.map((line) => line.split(" ").slice(0, 2).join(" "))).to.have.members([
      "settings: ACP_WORKERS",
      "settings: ACP_POOL_SIZE",
    ]);
  });

  it("tells which keys are missing or unusable, and shows none", async () => {
    const missing = await wrongWith({ ACP_ENCRYPTION_KEY: "" });
    expect(missing.wrong.join()).to.contain("keys: ACP_ENCRYPTION_KEY must be set").and.contain("openssl rand");
    const rsa = await wrongWith({ ACP_SIGNING_KEY: "-----BEGIN hunter2" });
    expect(rsa.wrong).to.deep.equal(["keys: ACP_SIGNING_KEY holds no ECDSA P-256 private key in PEM"]);
    const none = await wrongWith({ ACP_SIGNING_KEY: join(folder, "hunter2.pem") });
    expect(none.wrong).to.deep.equal(["keys: ACP_SIGNING_KEY names a file that cannot be read (ENOENT)"]);
    const noAdmin = await wrongWith({ ACP_ADMIN_KEY: "" });
    expect(noAdmin.wrong.join()).to.contain("it holds no key, and ACP_ADMIN_KEY is not set");
  });

  it("tells a database that cannot be reached, lacks migrations, or is newer", async () => {
    const away = new URL(sessionUrlOf(database.url));
    away.port = "1";
    const unreachable = await wrongWith({ DATABASE_URL: away.href });
    expect(unreachable.code).to.equal(1);
    expect(unreachable.wrong.join()).to.match(/^database: `.*` cannot connect to `.*:1`: .*ECONNREFUSED/);
    const empty = await createTestDatabase([]);
    expect((await wrongWith({ DATABASE_URL: sessionUrlOf(empty.url) })).wrong.join()).to.contain(
      "run `agentctl migrate up`",
    );
    await empty.drop();
    const change = (text: string) => withClient(database.ownerUrl, (client) => client.query(text));
    await change("insert into schema_migration (name) values ('9999-later')");
    expect((await wrongWith({})).wrong).to.deep.equal([
      "database: it is of a newer version, which applied `9999-later`",
    ]);
    await change("delete from schema_migration where name = '9999-later'");
  });

  it("tells a Redis that does not answer, without its password", async () => {
    const { wrong, text } = await wrongWith({ REDIS_URL: "redis://user:hunter2@127.0.0.1:1/0" });
    expect(wrong.join()).to.match(/^redis: redis:\/\/user:\*\*\*@127.0.0.1:1\/0 does not answer/);
    expect(text).not.to.contain("hunter2");
  });

  it("tells a data directory and keys that other accounts can read", async () => {
    const dataDir = join(folder, "open");
    await mkdir(dataDir);
    await chmod(dataDir, 0o755);
    await writeFile(join(dataDir, "encryption-key"), "");
    await chmod(join(dataDir, "encryption-key"), 0o644);
    expect((await wrongWith({ ACP_DATA_DIR: dataDir })).wrong).to.deep.equal([
      `data directory: other accounts may enter \`${dataDir}\`: chmod 700 '${dataDir}'`,
      `data directory: other accounts may read \`${dataDir}/encryption-key\`: chmod 600 '${dataDir}/encryption-key'`,
    ]);
  });

  describe("on ports", () => {
    let service: ServedHere;
    let other: Server;

    before(async () => {
      service = await serveHere({ databaseUrl: database.url });
      other = createServer((socket) => socket.end("220 not the service\r\n"));
      await new Promise<void>((done) => other.listen(0, "127.0.0.1", done));
    });
    after(async () => {
      other.close();
      await service.stop();
    });

    it("tells those that the service serves from those of another program", async () => {
      const http = new URL(service.http).port;
      const grpc = new URL(`http://${service.grpc}`).port;
      expect((await wrongWith({ ACP_HTTP_PORT: http, ACP_GRPC_PORT: grpc })).wrong).to.deep.equal([]);
      const taken = String((other.address() as AddressInfo).port);
      for (const name of ["ACP_HTTP_PORT", "ACP_GRPC_PORT"]) {
        const { code, wrong } = await wrongWith({ [name]: taken });
        expect(code).to.equal(1);
        expect(wrong.join()).to.contain(`ports: ${name} ${taken} is used by another program`);
      }
    });
  });
});
