/* Debian's PostgreSQL with its `pg_dump`: the embedded one comes without. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readdirSync } from "node:fs";
import { chown, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { parentOf } from "../bench/cpu.ts";
import { withClient } from "./database.ts";
import { freePort } from "./free-port.ts";
import "./scratch.ts";

const run = promisify(execFile);
/** The folder of the programs of the newest version. */
export const DEBIAN_PROGRAMS =
  globSync("/usr/lib/postgresql/*/bin")
    .sort((a, b) => numberIn(a) - numberIn(b))
    .at(-1) ?? "";
/** The package with server, `pg_dump` and `pg_restore`, of any version. */
export const DEBIAN_POSTGRES =
  globSync("/var/lib/dpkg/info/postgresql-[0-9]*.list")
    .map((path) => path.replace(/.*\/|\.list$/g, ""))
    .find((name) => /^postgresql-\d+$/.test(name)) ?? "postgresql";

const numberIn = (path: string): number => Number(/\d+/.exec(path)?.[0] ?? 0);
const POLL_MS = 50;

/** Signals that reach every process of a cluster. */
export type ClusterSignal = "SIGSTOP" | "SIGCONT" | "SIGKILL";

/** Sends a signal to the server that `postgres` is and to all of its processes, which have groups of their own. */
export function signalCluster(postgres: ChildProcess, name: ClusterSignal): void {
  if (postgres.pid === undefined || postgres.exitCode !== null || postgres.signalCode !== null) return;
  // The first process stops first, so that it starts no other one meanwhile.
  process.kill(postgres.pid, name === "SIGKILL" ? "SIGSTOP" : name);
  for (const pid of childrenOf(postgres.pid)) process.kill(pid, name);
  if (name === "SIGKILL") process.kill(postgres.pid, name);
}

const childrenOf = (parent: number): readonly number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === parent);

/** A running server of Debian's. */
export interface DebianPostgres extends AsyncDisposable {
  /** Address of a new database, for its superuser. */
  database(name: string): Promise<string>;
  /** Writes a dump of the database at `url`. */
  dump(url: string, path: string, ...options: readonly string[]): Promise<void>;
  /** Restores a dump into the new database at `url`. */
  restore(path: string, url: string): Promise<void>;
  /** Sends a signal to all of its processes. */
  signal(name: ClusterSignal): void;
}

/** Starts a server without durability, under an account that may run it. */
export async function startDebianPostgres(): Promise<DebianPostgres> {
  const root = await mkdtemp(join(tmpdir(), "acp-debian-"));
  const folder = join(root, "data");
  await mkdir(folder);
  const account = process.geteuid?.() === 0 ? await accountOf("postgres") : {};
  if (account.uid !== undefined && account.gid !== undefined)
    for (const path of [root, folder]) await chown(path, account.uid, account.gid);
  const program = (name: string): string => join(DEBIAN_PROGRAMS, name);
  await run(program("initdb"), ["-D", folder, "-U", "owner", "-A", "trust", "-N", "-E", "UTF8"], account);
  const port = await freePort();
  const settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${root}`];
  const child = spawn(program("postgres"), ["-D", folder, "-p", String(port), ...settings], {
    ...account,
    stdio: "ignore",
  });
  const urlOf = (name: string): string => `postgresql://owner@127.0.0.1:${port}/${name}`;
  const isUp = (): Promise<boolean> =>
    withClient(urlOf("postgres"), (client) => client.query("select 1")).then(
      () => true,
      () => false,
    );
  while (!(await isUp())) {
    if (child.exitCode !== null) throw new Error("Debian's PostgreSQL did not start");
    await delay(POLL_MS);
  }
  return {
    async database(name) {
      await withClient(urlOf("postgres"), (client) => client.query(`create database ${name} template template0`));
      return urlOf(name);
    },
    async dump(url, path, ...options) {
      await run(program("pg_dump"), ["--format=custom", ...options, `--file=${path}`, url]);
    },
    async restore(path, url) {
      await run(program("pg_restore"), ["--exit-on-error", `--dbname=${url}`, path]);
    },
    signal: (name) => signalCluster(child, name),
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGQUIT");
      await ended;
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** Returns the numbers of an account, and of its group. */
export async function accountOf(name: string): Promise<{ uid?: number; gid?: number }> {
  const [uid, gid] = await Promise.all(
    ["-u", "-g"].map(async (flag) => Number((await run("id", [flag, name])).stdout)),
  );
  return uid === undefined || gid === undefined ? {} : { uid, gid };
}
