import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { secretFromFile } from "./secret-file.ts";

/** Encrypts personal and secret texts for the store, under keys of each workspace. */
export interface Encryptor {
  /**
   * Encrypts a text, bound to workspace, column and row as associated data: it cannot be decrypted anywhere else. `place`
   * names column and row: `webhook.sealed_secret wh_…`.
   */
  encrypt(workspaceId: string, place: string, text: string): Buffer;
  /** Decrypts, under the present key or the earlier one. Throws ENCRYPTION_KEY_DIFFERS if key, place or bytes differ. */
  decrypt(workspaceId: string, place: string, encrypted: Uint8Array): string;
  /**
   * Decrypts and encrypts under the present key; undefined if the bytes are encrypted under it already. Throws
   * ENCRYPTION_KEY_DIFFERS as `decrypt` does.
   */
  renew(workspaceId: string, place: string, encrypted: Uint8Array): Buffer | undefined;
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Maximum number of workspaces whose derived keys are cached. */
const MAX_WORKSPACES = 1_000;
/** Base64url of 32 bytes. */
const KEY_TEXT = /^[\w-]{43}$/;

function keyDiffers(cause: unknown): ControlPlaneError {
  const message =
    "what is stored was encrypted with another `ACP_ENCRYPTION_KEY`, or elsewhere; set the earlier key again";
  return new ControlPlaneError(ErrorReason.ENCRYPTION_KEY_DIFFERS, message, {}, { cause });
}

/**
 * Creates an encryptor that encrypts under `secret`, and also decrypts what was encrypted under `earlier`. AES-256-GCM (NIST SP
 * 800-38D), with keys derived by HKDF (RFC 5869).
 */
export function createEncryptor(secret: string, earlier?: string): Encryptor {
  const present = createSingleKey(secret);
  const old = earlier === undefined ? present : createSingleKey(earlier);
  /** Returns the text with the key that decrypted it. */
  const read = (workspaceId: string, place: string, bytes: Uint8Array): readonly [text: string, isPresent: boolean] => {
    try {
      return [present.decrypt(workspaceId, place, bytes), true];
    } catch (error) {
      if (old === present) throw error;
      return [old.decrypt(workspaceId, place, bytes), false];
    }
  };
  return {
    ...present,
    decrypt: (workspaceId, place, bytes) => read(workspaceId, place, bytes)[0],
    renew(workspaceId, place, bytes) {
      const [text, isPresent] = read(workspaceId, place, bytes);
      return isPresent ? undefined : present.encrypt(workspaceId, place, text);
    },
  };
}

function createSingleKey(secret: string): Omit<Encryptor, "renew"> {
  const keys = new LRUCache<string, Buffer>({
    max: MAX_WORKSPACES,
    memoMethod: (workspaceId) =>
      Buffer.from(hkdfSync("sha256", secret, workspaceId, "agentcontrol seal v1", KEY_BYTES)),
  });

  const associatedData = (workspaceId: string, place: string): Buffer =>
    Buffer.from(JSON.stringify([workspaceId, place]));

  return {
    encrypt(workspaceId, place, text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, keys.memo(workspaceId), nonce).setAAD(associatedData(workspaceId, place));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]);
    },
    decrypt(workspaceId, place, encrypted) {
      try {
        const nonce = encrypted.subarray(0, NONCE_BYTES);
        const options = { authTagLength: TAG_BYTES };
        const decipher = createDecipheriv(CIPHER, keys.memo(workspaceId), nonce, options);
        decipher.setAAD(associatedData(workspaceId, place));
        decipher.setAuthTag(encrypted.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const body = encrypted.subarray(NONCE_BYTES + TAG_BYTES);
        return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
      } catch (error) {
        throw keyDiffers(error);
      }
    },
  };
}

/**
 * Returns the secret of the encryptor: the configured one, else the content of the file at `path`, which is created on first
 * use, readable by its owner alone. Throws an `Error` that names the file and never its content.
 */
export async function loadEncryptionKey(configured: string | undefined, path: string): Promise<string> {
  if (configured !== undefined) return configured;
  const key = (await secretFromFile(path, () => randomBytes(KEY_BYTES).toString("base64url"))).trim();
  if (!KEY_TEXT.test(key))
    throw new Error(`\`${path}\` holds no encryption key: restore it, or set ACP_ENCRYPTION_KEY`);
  return key;
}
