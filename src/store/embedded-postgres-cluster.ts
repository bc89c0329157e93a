import { randomBytes, randomUUID } from "node:crypto";
import { chmod, chown, mkdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Account, canReach, chooseAccount, isRoot, ownerOf, runAs } from "./embedded-postgres-account.ts";
import { type Binaries, openBinaries } from "./embedded-postgres-binaries.ts";

/** Where root keeps what another account must reach when the data directory is closed to it. */
export const DEFAULT_ROOT_HOME = "/var/lib/agent-control-plane";
/** The role that owns the embedded database. */
export const OWNER = "acp_owner";

/** A database on disk that some server process may serve. */
export interface Cluster {
  /** Holds `data`, `password`, `port` and `postgres.log`. */
  readonly directory: string;
  /** PostgreSQL's own directory, without symbolic links. */
  readonly data: string;
  readonly password: string;
  readonly account: Account | undefined;
  readonly binaries: Binaries;
}

/** Where a cluster is looked for, and made when there is none. */
export interface ClusterOptions {
  readonly dataDir: string;
  /** Default `DEFAULT_ROOT_HOME`; used by root only. */
  readonly rootHome?: string | undefined;
}

const INITDB_FLAGS = [
  `--username=${OWNER}`,
  "--auth=scram-sha-256",
  "--encoding=UTF8",
  "--locale=C",
  "--locale-provider=builtin",
  "--builtin-locale=C.UTF-8",
  "--no-instructions",
];

async function readText(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** Directory of the published database; undefined when none was ever published. */
async function findDirectory(published: string): Promise<string | undefined> {
  if (!(await exists(published))) return undefined;
  const directory = (await readText(join(published, "location"))) ?? published;
  if (await exists(join(directory, "data"))) return directory;
  // Starting empty here would look like lost data.
  throw new ControlPlaneError(
    ErrorReason.STORE_UNAVAILABLE,
    `the database of \`${published}\` is missing from \`${directory}\`: restore it, or remove \`${published}\` to start empty`,
    { published, directory },
  );
}

async function initialise(directory: string, account: Account | undefined, binaries: Binaries): Promise<void> {
  const [data, password] = [join(directory, "data"), join(directory, "password")];
  await mkdir(directory);
  await chmod(directory, account ? 0o755 : 0o700);
  await mkdir(data, { mode: 0o700 });
  await writeFile(password, randomBytes(24).toString("base64url"), { mode: 0o600 });
  if (account) {
    for (const path of [data, password]) await chown(path, account.uid, account.gid);
  }
  await runAs(account, binaries.initdb, [`--pgdata=${data}`, `--pwfile=${password}`, ...INITDB_FLAGS]);
}

/** Makes a directory and those above it. A `mode` is given to each that is made, whatever the umask. */
async function makeDirectory(path: string, mode?: number): Promise<void> {
  if (await exists(path)) return;
  // Node's own recursion never ends where a file system answers ENOENT to every mkdir, as /proc does.
  await makeDirectory(dirname(path), mode);
  try {
    await mkdir(path);
    if (mode !== undefined) await chmod(path, mode);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

async function create(dataDir: string, published: string, rootHome: string): Promise<void> {
  const account = await chooseAccount();
  const staging = join(dataDir, `.postgres-${randomUUID()}`);
  const isInside = !account || (await canReach(account, dataDir));
  const directory = isInside ? staging : join(rootHome, randomUUID());
  try {
    if (!isInside) await makeDirectory(rootHome, 0o755);
    const binaries = await openBinaries(account, account ? rootHome : dataDir);
    await initialise(directory, account, binaries);
    if (!isInside) {
      await mkdir(staging, { mode: 0o700 });
      await writeFile(join(staging, "location"), `${directory}\n`);
    }
    // INVARIANT: one rename publishes the whole database, so of several creators exactly one succeeds.
    await rename(staging, published);
  } catch (error) {
    await Promise.all([staging, directory].map((path) => rm(path, { recursive: true, force: true })));
    if (!["ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw failure(directory, error);
  }
}

function failure(directory: string, cause: unknown): ControlPlaneError {
  if (cause instanceof ControlPlaneError) return cause;
  const text = cause instanceof Error ? cause.message.trim().split("\n").at(-1) : String(cause);
  const message = `cannot make a database in \`${directory}\`: ${text}; set ACP_DATA_DIR or DATABASE_URL`;
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { directory }, { cause });
}

async function readPassword(directory: string): Promise<string> {
  try {
    return (await readFile(join(directory, "password"), "utf8")).trim();
  } catch (cause) {
    const message = `cannot read the database password in \`${directory}\`: run as the user who made the database`;
    throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, { directory }, { cause });
  }
}

/**
 * Opens the database of `dataDir`, making it on first use. It lives in `dataDir/postgres`; when this process is
 * root and that is closed to PostgreSQL's account, in `rootHome`, with a file `location` there that names the place.
 * Promises: several processes at once get the same database, and an existing one is never replaced.
 */
export async function openCluster({ dataDir, rootHome = DEFAULT_ROOT_HOME }: ClusterOptions): Promise<Cluster> {
  await makeDirectory(resolve(dataDir)).catch((error: unknown) => {
    throw failure(dataDir, error);
  });
  const home = await realpath(dataDir);
  const published = join(home, "postgres");
  if (!(await findDirectory(published))) await create(home, published, rootHome);
  const directory = (await findDirectory(published)) ?? published;
  const data = await realpath(join(directory, "data"));
  const account = await ownerOf(data);
  const binaries = await openBinaries(account, isRoot() ? rootHome : home);
  return { directory, data, account, binaries, password: await readPassword(directory) };
}
