import { execFile } from "node:child_process";
import { readFile, realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** The system user that PostgreSQL runs as, by its numbers. Undefined stands for the user of this process. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** In order of preference: PostgreSQL's own user, then the one that every system has. */
const CANDIDATES = ["postgres", "nobody"];

/** What the PostgreSQL programs see of this process: no `PG…` variable, no library path, English messages. */
export const PROGRAM_ENVIRONMENT = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

/** True when this process is root, as which PostgreSQL refuses to run. */
export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

async function lookUp(name: string): Promise<Account | undefined> {
  const line = (await readFile("/etc/passwd", "utf8")).split("\n").find((each) => each.startsWith(`${name}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  return Number(uid) > 0 && Number(gid) > 0 ? { uid: Number(uid), gid: Number(gid) } : undefined;
}

/**
 * The account for a new database. Undefined unless this process is root.
 * It MUST have a line in `/etc/passwd`, because initdb looks its own user up there.
 */
export async function chooseAccount(): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  for (const name of CANDIDATES) {
    const account = await lookUp(name);
    if (account) return account;
  }
  throw new ControlPlaneError(
    ErrorReason.STORE_UNAVAILABLE,
    `postgresql does not run as root and /etc/passwd has none of ${CANDIDATES.join(", ")}: add one or set DATABASE_URL`,
  );
}

/** The account that owns an existing database. Undefined unless this process is root. */
export async function ownerOf(path: string): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  const { uid, gid } = await stat(path);
  return { uid, gid };
}

async function permits(account: Account, path: string, bits: number): Promise<boolean> {
  const { uid, gid, mode } = await stat(path);
  const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
  return ((mode >> shift) & bits) === bits;
}

/** True when the account may read `path` and enter every directory above it. `path` MUST exist. */
export async function canReach(account: Account, path: string): Promise<boolean> {
  let current = await realpath(path);
  const isDirectory = (await stat(current)).isDirectory();
  if (!(await permits(account, current, isDirectory ? 5 : 4))) return false;
  while (current !== dirname(current)) {
    current = dirname(current);
    if (!(await permits(account, current, 1))) return false;
  }
  return true;
}

/** Runs a program to its end as the account; gives its standard output, throws with its standard error. */
export async function runAs(account: Account | undefined, program: string, args: readonly string[]): Promise<string> {
  // The working directory of this process may be closed to the account.
  const options = { cwd: "/", env: PROGRAM_ENVIRONMENT, ...account };
  const { stdout } = await promisify(execFile)(program, [...args], options);
  return stdout;
}
