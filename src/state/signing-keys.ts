import { createPublicKey, hash, type KeyObject } from "node:crypto";
import type { SealedSigningKey } from "./control-changes.ts";

/** A present or former signing key of the service, as sealed in a workspace's log. */
export interface SigningKey {
  /** RFC 7638 thumbprint. */
  readonly keyId: string;
  /** ECDSA P-256. */
  readonly publicKey: KeyObject;
  readonly addedSeq: number;
  readonly addedAtMs: number;
  /** Place and time of the retirement: earlier signatures verify, later ones do not. Null while the key may sign. */
  readonly retired: { readonly seq: number; readonly atMs: number } | null;
}

/** Place of an entry in the log. */
interface Place {
  readonly seq: number;
  readonly atMs: number;
}

/** Returns the RFC 7638 thumbprint of an elliptic-curve key. */
export function thumbprintOf(publicKey: KeyObject): string {
  const { crv, kty, x, y } = publicKey.export({ format: "jwk" });
  return hash("sha256", JSON.stringify({ crv, kty, x, y }), "base64url");
}

function publicKeyFrom({ key_id, public_key }: SealedSigningKey): KeyObject | undefined {
  try {
    const key = createPublicKey(public_key);
    return thumbprintOf(key) === key_id ? key : undefined;
  } catch {
    return undefined;
  }
}

/** The signing keys that a workspace's log seals, in the order of their sealing. No other key is trusted. */
export class SealedSigningKeys {
  readonly #keys = new Map<string, SigningKey>();

  get(keyId: string): SigningKey | undefined {
    return this.#keys.get(keyId);
  }

  all(): readonly SigningKey[] {
    return [...this.#keys.values()];
  }

  /** Adds a key. Ignores one that is known, and one whose id is not its thumbprint. */
  add(sealed: SealedSigningKey, { seq, atMs }: Place): void {
    const publicKey = publicKeyFrom(sealed);
    if (publicKey === undefined || this.#keys.has(sealed.key_id)) return;
    const keyId = sealed.key_id;
    this.#keys.set(keyId, { keyId, publicKey, addedSeq: seq, addedAtMs: atMs, retired: null });
  }

  /** Retires a key, once. */
  retire(keyId: string, { seq, atMs }: Place): void {
    const key = this.#keys.get(keyId);
    if (key?.retired === null) this.#keys.set(keyId, { ...key, retired: { seq, atMs } });
  }
}
