import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { withClient } from "../support/database.ts";
import { describeWithPackages } from "../support/debian.ts";
import { DEBIAN_POSTGRES, type DebianPostgres, startDebianPostgres } from "../support/debian-postgres.ts";
import { serveHere } from "../support/served-here.ts";
import { agentctl, createFolder, type Folder, type Run } from "./harness.ts";
import { newKey } from "./written-log.ts";

const ADMIN_KEY = "an-admin-key-of-the-test";
const AGENTCTL = join(import.meta.dirname, "../../src/cli/agentctl.ts");
const KEY = newKey();
const ENV = {
  ACP_ADMIN_KEY: ADMIN_KEY,
  ACP_SIGNING_KEY: KEY.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  ACP_ENCRYPTION_KEY: "an-encryption-key-of-the-test-0123456789",
};

describeWithPackages("agentctl backup check", [DEBIAN_POSTGRES], function () {
  this.timeout(240_000);
  let server: DebianPostgres;
  let folder: Folder;
  let url: string;
  let pem: string;

  before(async () => {
    folder = await createFolder();
    server = await startDebianPostgres();
    url = await server.database("acp");
    pem = await folder.file("key.pem", KEY.publicPem);
    await serve(12, "kept");
    await server.dump(url, folder.path("good.dump"));
    await serve(3, "later");
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    await folder?.remove();
  });

  /** Has actions decided, and keeps a checkpoint of the log. */
  async function serve(actions: number, checkpoint: string): Promise<void> {
    const service = await serveHere({ databaseUrl: url, env: ENV });
    try {
      const env = { AGENTCTL_URL: service.http, AGENTCTL_KEY: ADMIN_KEY };
      const made = await agentctl(["agents", "create", `agent ${checkpoint}`, "--json"], env);
      const { agent } = made.json() as { agent: { agent_id: string } };
      for (let count = 0; count < actions; count += 1) {
        await fetch(`${service.http}/v1/enforce/intercept`, {
          method: "POST",
          headers: { "x-api-key": ADMIN_KEY, "content-type": "application/json" },
          body: JSON.stringify({ agent_id: agent.agent_id, action_type: "read" }),
        });
      }
      const kept = await agentctl(["vault", "verify", "--keep-checkpoint", folder.path(checkpoint)], env);
      expect(kept.code, kept.stdout + kept.stderr).to.equal(0);
    } finally {
      await service.stop();
    }
  }

  const check = (dump: string, ...more: readonly string[]): Promise<Run> =>
    agentctl(["backup", "check", folder.path(dump), ...more]);
  const scratchFolders = (): readonly string[] =>
    readdirSync(tmpdir()).filter((name) => name.startsWith("acp-backup-check-"));
  const scratchDatabases = (): Promise<readonly string[]> =>
    withClient(url, async (client) => {
      const { rows } = await client.query<{ datname: string }>(
        "select datname from pg_database where datname like 'acp\\_backup%'",
      );
      return rows.map(({ datname }) => datname);
    });

  it("verifies a good dump on an embedded server, which is gone afterwards.", async () => {
    const { code, stdout, stderr } = await check("good.dump", "--against", folder.path("kept"), "--public-key", pem);
    expect(code, stdout + stderr).to.equal(0);
    expect(stdout).to.match(/^VERIFIED: the dump restores/);
    expect(stdout).to.match(
      /workspace {2}default: \d+ entries, the last of \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ; the head agrees/,
    );
    expect(stdout).to.include("contains the kept checkpoint");
    expect(scratchFolders()).to.deep.equal([]);
  });

  it("tells what a restore would lose, by a later checkpoint.", async () => {
    const run = await check("good.dump", "--against", folder.path("later"), "--public-key", pem, "--database-url", url);
    expect(run.code, run.stdout + run.stderr).to.equal(1);
    expect(run.stdout)
      .to.match(/^REFUSED \(truncated\)/)
      .and.match(/at least \d+ entries, from entry \d+ on/);
    expect(await scratchDatabases()).to.deep.equal([]);
    const json = await check(
      "good.dump",
      "--against",
      folder.path("later"),
      "--public-key",
      pem,
      "--database-url",
      url,
      "--json",
    );
    expect(json.json()).to.have.nested.property("workspaces[0].missing").that.is.above(0);
  });

  it("refuses a truncated dump, and leaves nothing behind.", async () => {
    const whole = await readFile(folder.path("good.dump"));
    for (const [name, length] of [
      ["half", whole.length / 2],
      ["cut", whole.length - 100],
      ["head", 40],
    ] as const) {
      await writeFile(folder.path(name), whole.subarray(0, length));
      const { code, stdout } = await check(name, "--database-url", url);
      expect(code, `${name}: ${stdout}`).to.equal(1);
      expect(stdout).to.match(/REFUSED \(malformed\): .*(is no complete dump|cannot be restored)/);
    }
    expect(await scratchDatabases()).to.deep.equal([]);
  });

  it("refuses a dump of a database that somebody changed, and names workspace and entry.", async () => {
    const copy = await server.database("tampered");
    await server.dump(url, folder.path("whole.dump"));
    const { execFileSync } = await import("node:child_process");
    execFileSync("pg_restore", ["--no-owner", `--dbname=${copy}`, folder.path("whole.dump")], { stdio: "ignore" });
    await withClient(copy, async (client) => {
      await client.query("alter table ledger_entry disable trigger all");
      await client.query(`update ledger_entry set body = replace(body, '"allow"', '"block"') where seq = 9`);
    });
    await server.dump(copy, folder.path("tampered.dump"));
    const { code, stdout } = await check("tampered.dump", "--database-url", url);
    expect(code, stdout).to.equal(1);
    expect(stdout).to.match(/^REFUSED \(leaf_hash\): workspace `default`: entry 9 was changed/);
    await withClient(copy, async (client) => {
      await client.query("alter table ledger_entry disable trigger all");
      await client.query("delete from ledger_entry where seq = (select max(seq) from ledger_entry)");
      await client.query(`update ledger_entry set body = replace(body, '"block"', '"allow"') where seq = 9`);
    });
    await server.dump(copy, folder.path("shortened.dump"));
    const shortened = await check("shortened.dump", "--database-url", url);
    expect(shortened.code, shortened.stdout).to.equal(1);
    expect(shortened.stdout).to.match(/REFUSED \(truncated\): workspace `default`: the head counts \d+ entries/);
  });

  it("says what helps for what is no archive, a newer one, and a password on the command line.", async () => {
    await server.dump(url, folder.path("plain.sql"), "--format=plain");
    expect((await check("plain.sql")).stderr).to.include("pg_dump --format=custom");
    const newer = Buffer.from(await readFile(folder.path("good.dump")));
    // The format's version stands behind the magic word `PGDMP`.
    newer.writeUInt8(99, 6);
    await writeFile(folder.path("newer.dump"), newer);
    const { code, stderr } = await check("newer.dump");
    expect(code).to.equal(2);
    expect(stderr).to.include("newer PostgreSQL").and.to.include("apt-get install postgresql-client");
    const told = await check("good.dump", "--database-url", "postgresql://me:s3cret@127.0.0.1/postgres");
    expect([told.code, told.stderr.includes("PGPASSWORD"), told.stderr.includes("s3cret")]).to.deep.equal([
      2,
      true,
      false,
    ]);
    expect((await check("good.dump", "--against", folder.path("kept"))).stderr).to.include("--jwks or --public-key");
    expect((await check("missing.dump")).code).to.not.equal(0);
  });

  it("removes the scratch database when it is interrupted.", async () => {
    const child = spawn(
      process.execPath,
      [AGENTCTL, "backup", "check", folder.path("good.dump"), "--database-url", url],
      {
        stdio: "ignore",
      },
    );
    const ended = once(child, "exit");
    while ((await scratchDatabases()).length === 0 && child.exitCode === null);
    child.kill("SIGINT");
    await ended;
    expect(await scratchDatabases()).to.deep.equal([]);
  });
});
