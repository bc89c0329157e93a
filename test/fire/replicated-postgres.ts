/* Two clusters of Debian's PostgreSQL, of which the second follows the first and confirms each commit. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, chown, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { accountOf, DEBIAN_PROGRAMS, signalCluster } from "../support/debian-postgres.ts";
import { freePort } from "../support/free-port.ts";
import { withOwner } from "../support/owner.ts";
import "../support/scratch.ts";

const run = promisify(execFile);
const POLL_MS = 20;
const NAME = "standby";

/** The clusters. */
export interface ReplicatedPostgres {
  readonly primaryPort: number;
  readonly standbyPort: number;
  /** Name of the database of both. */
  readonly database: string;
  /** Ends every process of the primary at once, as a machine that loses its power does. */
  killPrimary(): Promise<void>;
  /** Makes the standby accept writes, without a standby of its own. */
  promote(): Promise<void>;
}

const program = (name: string): string => join(DEBIAN_PROGRAMS, name);

const urlOf = (port: number, database: string): string => `postgresql://owner@127.0.0.1:${port}/${database}`;

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo().catch(() => false))) await delay(POLL_MS);
}

const answers = (port: number): Promise<boolean> =>
  withOwner(urlOf(port, "postgres"), async (client) => {
    await client.query("select 1");
    return true;
  });

/** Starts both clusters with a database, and waits until the standby confirms commits. `cleanup` ends and removes them. */
export async function startReplicatedPostgres(cleanup: AsyncDisposableStack): Promise<ReplicatedPostgres> {
  const account = process.geteuid?.() === 0 ? await accountOf("postgres") : {};
  const root = await mkdtemp(join(tmpdir(), "acp-pair-"));
  cleanup.defer(() => rm(root, { recursive: true, force: true }));
  const [first, second] = [join(root, "primary"), join(root, "standby")];
  for (const path of [root, first]) {
    if (path !== root) await mkdir(path);
    if (account.uid !== undefined && account.gid !== undefined) await chown(path, account.uid, account.gid);
  }
  const start = (folder: string, port: number): ChildProcess => {
    const settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${root}`];
    const args = ["-D", folder, "-p", String(port), ...settings, "-c", "max_connections=200"];
    const child = spawn(program("postgres"), args, { ...account, stdio: "ignore" });
    cleanup.defer(() => kill(child));
    return child;
  };
  await run(program("initdb"), ["-D", first, "-U", "owner", "-A", "trust", "-N", "-E", "UTF8"], account);
  await appendFile(join(first, "pg_hba.conf"), "host replication owner 127.0.0.1/32 trust\n");
  const [primaryPort, standbyPort] = [await freePort(), await freePort()];
  const primary = start(first, primaryPort);
  await until(() => answers(primaryPort));
  const database = "acp";
  await withOwner(urlOf(primaryPort, "postgres"), (client) => client.query(`create database ${database}`));
  const source = `host=127.0.0.1 port=${primaryPort} user=owner application_name=${NAME}`;
  await run(program("pg_basebackup"), ["-D", second, "-d", source, "-R", "-X", "stream", "-c", "fast", "-N"], account);
  const standby = start(second, standbyPort);
  await withOwner(urlOf(primaryPort, "postgres"), async (client) => {
    await client.query(`alter system set synchronous_standby_names = '${NAME}'`);
    await client.query("select pg_reload_conf()");
    await until(async () => {
      const { rows } = await client.query("select sync_state from pg_stat_replication");
      return rows[0]?.sync_state === "sync";
    });
  });
  return {
    primaryPort,
    standbyPort,
    database,
    killPrimary: () => kill(primary),
    async promote() {
      if (standby.exitCode !== null) throw new Error("the standby is gone");
      await withOwner(urlOf(standbyPort, "postgres"), (client) => client.query("select pg_promote(true, 60)"));
    },
  };
}

async function kill(postgres: ChildProcess): Promise<void> {
  if (postgres.exitCode !== null || postgres.signalCode !== null) return;
  const ended = once(postgres, "exit");
  signalCluster(postgres, "SIGKILL");
  await ended;
}
