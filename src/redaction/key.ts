import { randomBytes } from "node:crypto";
import { secretFromFile } from "../authority/secret-file.ts";

const KEY_BYTES = 32;
/** What the file holds: the base64url of 32 bytes. */
const KEY_TEXT = /^[\w-]{43}$/;

/**
 * Gives the secret that personal values are encrypted under: the configured one, else what `path` holds, where one is made
 * on first use, readable by its owner alone. Throws an `Error` that names the file and never its content.
 */
export async function loadRedactionKey(configured: string | undefined, path: string): Promise<string> {
  if (configured !== undefined) return configured;
  const key = (await secretFromFile(path, () => randomBytes(KEY_BYTES).toString("base64url"))).trim();
  if (!KEY_TEXT.test(key)) throw new Error(`\`${path}\` holds no redaction key`);
  return key;
}
