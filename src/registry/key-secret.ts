import { createHash, randomBytes } from "node:crypto";
import { base32FromBytes } from "../store/ids.ts";

const SECRET_BYTES = 32;
/** Characters of a secret that are shown. */
const PREFIX_LENGTH = 12;

/** What the secret of a key begins with. */
export const KEY_MARK = "acp_";
/** What the secret of a credential begins with. */
export const CREDENTIAL_MARK = "acpc_";

/** A new secret: a mark and the base32 of 32 bytes from the system's generator. */
export function createSecret(mark: typeof KEY_MARK | typeof CREDENTIAL_MARK = KEY_MARK): string {
  return `${mark}${base32FromBytes(randomBytes(SECRET_BYTES))}`;
}

/** What is stored of a secret. SHA-256 alone is enough: a secret is too random to be guessed. */
export function hashSecret(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** The part of a secret that tells keys apart: 12 characters, or a quarter of a secret that people chose, if that is less. */
export function prefixOf(secret: string): string {
  const shown = secret.startsWith(KEY_MARK) ? PREFIX_LENGTH : Math.min(PREFIX_LENGTH, Math.floor(secret.length / 4));
  return secret.slice(0, shown);
}
