import { constants } from "node:fs";
import { lstat, mkdir, open, opendir, realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** Flags that open a file or folder itself: no symbolic link, no wait for the other end of a pipe. */
const ITSELF = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** Maximum depth of folders whose owner is changed. */
const MAX_DEPTH = 128;
/** Permissions of the folder of all homes: accounts may pass through it and cannot list it. */
const PASSABLE = 0o711;
const OWNER_ONLY = 0o700;

/** Creates the folder of all homes. */
export async function makeHomesFolder(folder: string): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  await mkdir(folder, { mode: PASSABLE }).catch(ifExists);
}

/** Returns the first folder on the way to `folder`, itself included, that other accounts may not pass; undefined without one. */
export async function impassableFolder(folder: string): Promise<string | undefined> {
  for (let current = await realpath(folder); ; current = dirname(current)) {
    if (((await stat(current)).mode & 1) === 0) return current;
    if (current === dirname(current)) return undefined;
  }
}

/** Creates a home for this process's own account. */
export async function makeOwnHome(home: string): Promise<void> {
  await mkdir(home, { mode: OWNER_ONLY }).catch(ifExists);
}

/**
 * Creates a home, or gives an existing one to another account, with everything that its last account owned there. Files of others,
 * to which hard links may lead, keep their owners. For root; no process of either account MUST be running.
 */
export async function giveHome(home: string, uid: number): Promise<void> {
  await mkdir(home, { mode: OWNER_ONLY }).catch(ifExists);
  await using top = await open(home, ITSELF | constants.O_DIRECTORY);
  const last = lastAccountOf(await top.stat());
  if (last !== 0 && last !== uid) await giveContent(top.fd, last, uid, 0);
  await top.chown(uid, uid);
  await top.chmod(OWNER_ONLY);
}

/** Closes a home to every account but root, and notes its last one as the group. */
export async function closeHome(home: string): Promise<void> {
  await using top = await open(home, ITSELF | constants.O_DIRECTORY);
  const last = lastAccountOf(await top.stat());
  await top.chmod(OWNER_ONLY);
  await top.chown(0, last);
}

/** Returns the account that used a home last; undefined for a new home. */
export async function lastAccount(home: string): Promise<number | undefined> {
  const found = await lstat(home).catch(() => undefined);
  return found === undefined ? undefined : lastAccountOf(found);
}

const lastAccountOf = ({ uid, gid }: { readonly uid: number; readonly gid: number }): number => (uid === 0 ? gid : uid);

/**
 * Changes the owner of what a folder holds. Works on open files, whose paths cannot be exchanged meanwhile for links that lead
 * elsewhere.
 */
async function giveContent(folder: number, from: number, to: number, depth: number): Promise<void> {
  const path = `/proc/self/fd/${folder}`;
  for await (const entry of await opendir(path)) {
    if (!entry.isFile() && !entry.isDirectory()) continue;
    const file = await open(`${path}/${entry.name}`, ITSELF).catch(() => undefined);
    if (file === undefined) continue;
    try {
      const found = await file.stat();
      const isPlain = found.isFile() || found.isDirectory();
      if (!isPlain || found.uid !== from) continue;
      await file.chown(to, to);
      if (found.isDirectory() && depth < MAX_DEPTH) await giveContent(file.fd, from, to, depth + 1);
    } finally {
      await file.close();
    }
  }
}

function ifExists(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "EEXIST") throw error;
}
