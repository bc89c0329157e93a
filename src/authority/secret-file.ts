import { randomUUID } from "node:crypto";
import { chmod, link, mkdir, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";

const OWNER_ONLY = 0o600;

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** Written aside and linked: whoever starts at the same time sees a whole secret or none. */
async function linkNew(path: string, secret: string): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  const file = await open(aside, "wx", OWNER_ONLY);
  await file.writeFile(secret);
  await file.sync();
  await file.close();
  try {
    await link(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

/**
 * Gives the secret that a file holds, and writes what `make` gives where there is none: of several that start at once all
 * get the same. Afterwards its owner alone can read the file. Rejects when it can be neither read nor written.
 */
export async function secretFromFile(path: string, make: () => string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  const existing = await readFile(path, "utf8").catch(ifMissing);
  if (existing === undefined) await linkNew(path, make());
  await chmod(path, OWNER_ONLY);
  return existing ?? readFile(path, "utf8");
}
