import { chmod, mkdir, readdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { StoreLog } from "./migrate.ts";

const OWNER_ONLY = 0o700;
/** Permissions of accounts other than the owner. */
const OTHERS = 0o077;
/** Names of the service's files in its data directory, with their temporary names. */
const OWN = /^(postgres|\.postgres-.*|postgresql-.*|(admin-key|signing-key\.pem|encryption-key)(\..*)?)$/;
/** Folder at the top of a file system. */
const OF_NOBODY = "lost+found";

/** Creates a directory and its parents. `mode` is set on each that is created, whatever the umask. */
export async function makeDirectory(path: string, mode?: number): Promise<void> {
  if ((await stat(path).catch(() => undefined)) !== undefined) return;
  // Node's own recursion never ends where a file system answers ENOENT to every mkdir, as /proc does.
  await makeDirectory(dirname(path), mode);
  await mkdir(path, { mode }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  if (mode !== undefined) await chmod(path, mode);
}

/**
 * Creates the data directory, which only its owner may enter. Closes an existing one to other accounts, unless it belongs to
 * another account, which is logged. Rejects with STORE_UNAVAILABLE for one that is open and in which others keep files, since
 * closing it would lock them out.
 */
export async function openDataDirectory(path: string, log: Pick<StoreLog, "info" | "warn">): Promise<void> {
  const directory = resolve(path);
  if ((await stat(directory).catch(() => undefined)) === undefined) {
    await makeDirectory(dirname(directory));
    await makeDirectory(directory, OWNER_ONLY);
  }
  if (((await stat(directory)).mode & OTHERS) === 0) return;
  await assertOwn(directory);
  try {
    await chmod(directory, OWNER_ONLY);
    log.info({ directory }, "the data directory is closed to other accounts from now on");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EPERM" && code !== "EROFS") throw error;
    log.warn(
      { directory },
      "other accounts may enter the data directory: give it to the service's account, with mode 0700",
    );
  }
}

async function assertOwn(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name !== OF_NOBODY);
  if (names.length === 0 || names.some((name) => OWN.test(name))) return;
  const text = `the data directory \`${directory}\` is open to other accounts and holds files of others: name an empty one in ACP_DATA_DIR, or close it with chmod 700`;
  throw new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, text, { directory });
}
