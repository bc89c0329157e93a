import { randomUUID } from "node:crypto";
import { chmod, link, mkdir, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";

const OWNER_ONLY = 0o600;

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** Creates the file atomically, by a link to a complete temporary one; an existing file stays. */
async function linkNew(path: string, secret: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  const file = await open(temporary, "wx", OWNER_ONLY);
  await file.writeFile(secret);
  await file.sync();
  await file.close();
  try {
    await link(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}

/**
 * Reads the secret in a file, or generates it with `make` if there is none. Processes that start at once get the same
 * secret. The file is readable by its owner alone. Rejects when it can be neither read nor written.
 */
export async function secretFromFile(path: string, make: () => string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  const existing = await readFile(path, "utf8").catch(ifMissing);
  if (existing === undefined) await linkNew(path, make());
  await chmod(path, OWNER_ONLY);
  return existing ?? readFile(path, "utf8");
}
