import { randomBytes, randomUUID } from "node:crypto";
import { chmod, link, mkdir, open, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";

const OWNER_ONLY = 0o600;
const KEY_BYTES = 32;
/** What the file holds: the base64url of 32 bytes. */
const KEY_TEXT = /^[\w-]{43}$/;

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** Written aside and linked: whoever starts at the same time sees a whole key or none. */
async function linkNewKey(path: string): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  const file = await open(aside, "wx", OWNER_ONLY);
  await file.writeFile(randomBytes(KEY_BYTES).toString("base64url"));
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
 * Gives the secret that personal values are encrypted under: the configured one, else what `path` holds, where one is made
 * on first use, readable by its owner alone. Throws an `Error` that names the file and never its content.
 */
export async function loadRedactionKey(configured: string | undefined, path: string): Promise<string> {
  if (configured !== undefined) return configured;
  await mkdir(dirname(path), { recursive: true });
  const existing = await readFile(path, "utf8").catch(ifMissing);
  if (existing === undefined) await linkNewKey(path);
  await chmod(path, OWNER_ONLY);
  const key = (existing ?? (await readFile(path, "utf8"))).trim();
  if (!KEY_TEXT.test(key)) throw new Error(`\`${path}\` holds no redaction key`);
  return key;
}
