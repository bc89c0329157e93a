import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Encrypts what is personal or secret before it is stored. Each workspace has keys of its own. */
export interface Sealer {
  /** Encrypts a text. `place` names where it is kept; elsewhere it does not open. */
  seal(workspaceId: string, place: string, text: string): Buffer;
  /** Decrypts. Throws REDACTION_KEY_DIFFERS for what was sealed under another key, kept elsewhere, or changed. */
  open(workspaceId: string, place: string, sealed: Uint8Array): string;
  /** A digest that tells whether two texts are equal to nobody without the key. */
  mark(workspaceId: string, text: string): Buffer;
}

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Workspaces whose keys are kept at hand: deriving them anew costs a few microseconds. */
const KEPT_KEYS = 10_000;

interface Keys {
  readonly seal: Buffer;
  readonly mark: Buffer;
}

function keyDiffers(cause: unknown): ControlPlaneError {
  const message = "what is stored was encrypted with another `ACP_REDACTION_KEY`";
  return new ControlPlaneError(ErrorReason.REDACTION_KEY_DIFFERS, message, {}, { cause });
}

/** Creates a sealer: AES-256-GCM (NIST SP 800-38D) and HMAC-SHA-256, with keys derived by HKDF (RFC 5869) from `secret`. */
export function createSealer(secret: string): Sealer {
  const kept = new Map<string, Keys>();

  const derive = (workspaceId: string, use: string): Buffer =>
    Buffer.from(hkdfSync("sha256", secret, workspaceId, `agentcontrol redaction ${use} v1`, KEY_BYTES));

  const keysOf = (workspaceId: string): Keys => {
    const known = kept.get(workspaceId);
    if (known !== undefined) return known;
    const keys = { seal: derive(workspaceId, "seal"), mark: derive(workspaceId, "mark") };
    if (kept.size >= KEPT_KEYS) kept.clear();
    kept.set(workspaceId, keys);
    return keys;
  };

  return {
    seal(workspaceId, place, text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, keysOf(workspaceId).seal, nonce).setAAD(Buffer.from(place));
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), body]);
    },
    open(workspaceId, place, sealed) {
      try {
        const nonce = sealed.subarray(0, NONCE_BYTES);
        const options = { authTagLength: TAG_BYTES };
        const decipher = createDecipheriv(CIPHER, keysOf(workspaceId).seal, nonce, options);
        decipher.setAAD(Buffer.from(place)).setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const body = sealed.subarray(NONCE_BYTES + TAG_BYTES);
        return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
      } catch (error) {
        throw keyDiffers(error);
      }
    },
    mark: (workspaceId, text) => createHmac("sha256", keysOf(workspaceId).mark).update(text).digest(),
  };
}
