import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { calculateJwkThumbprint, exportJWK, type JWK } from "jose";
import type { Database } from "../store/database.ts";
import { SigningKeyEntity } from "../store/entities.ts";
import { secretFromFile } from "./secret-file.ts";

/** The private key that the service signs with, and the public keys of all it ever signed with. */
export interface SigningKeys {
  /** RFC 7638 thumbprint of the key in use. */
  readonly keyId: string;
  /** ECDSA P-256; the key in use. */
  readonly privateKey: KeyObject;
  /** PEM (SubjectPublicKeyInfo) of the key in use. */
  readonly publicPem: string;
  /** ECDSA P-256 with SHA-256, DER. */
  sign(bytes: Uint8Array): Buffer;
  /** Returns the public key of an id, past keys and other replicas' included; undefined when the service never had it. */
  publicKeyOf(keyId: string): Promise<KeyObject | undefined>;
  /** Returns all public keys, newest first, as a JSON Web Key Set (RFC 7517). */
  jwks(): Promise<{ keys: JWK[] }>;
}

const CURVE = "prime256v1";

function privateKeyFrom(pem: string, source: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyDetails?.namedCurve === CURVE) return key;
  } catch {
    // The error below says it without quoting the text.
  }
  throw new Error(`${source} holds no ECDSA P-256 private key in PEM`);
}

const newPem = (): string =>
  generateKeyPairSync("ec", { namedCurve: CURVE }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();

/**
 * Reads the private key: from `configured` (PEM text, or the path of a file that holds it), else from `defaultPath`, where
 * one is generated on first use, readable by its owner alone. Throws an `Error` that names the source, never its content.
 */
export async function loadSigningKey(configured: string | undefined, defaultPath: string): Promise<KeyObject> {
  if (configured === undefined) {
    return privateKeyFrom(await secretFromFile(defaultPath, newPem), `\`${defaultPath}\``);
  }
  if (configured.includes("-----BEGIN")) return privateKeyFrom(configured, "ACP_SIGNING_KEY");
  const text = await readFile(configured, "utf8").catch(({ code }: NodeJS.ErrnoException) => {
    // Without the cause, which repeats the value: it may be a key that lost its first line.
    throw new Error(`ACP_SIGNING_KEY names a file that cannot be read (${code})`);
  });
  return privateKeyFrom(text, "the file that ACP_SIGNING_KEY names");
}

/** Publishes the public part of the key in use, beside the older ones, and creates the signer and verifier. */
export async function createSigningKeys({ orm }: Database, privateKey: KeyObject, nowMs: number): Promise<SigningKeys> {
  const publicKey = createPublicKey(privateKey);
  const publicPem = publicKey.export({ type: "spki", format: "pem" }).toString();
  const bare = await exportJWK(publicKey);
  const keyId = await calculateJwkThumbprint(bare);
  const publicJwk = { ...bare, kid: keyId, alg: "ES256", use: "sig" };
  const row = { keyId, publicJwk, publicPem, createdAtMs: nowMs };
  await orm.em.fork().upsert(SigningKeyEntity, row, { onConflictAction: "ignore" });
  const known = new Map([[keyId, publicKey]]);

  return {
    keyId,
    privateKey,
    publicPem,
    sign: (bytes) => sign("sha256", bytes, privateKey),
    async publicKeyOf(id) {
      const found = known.get(id);
      if (found !== undefined) return found;
      const row = await orm.em.fork().findOne(SigningKeyEntity, { keyId: id });
      if (row === null) return undefined;
      const key = createPublicKey(row.publicPem);
      known.set(id, key);
      return key;
    },
    async jwks() {
      const rows = await orm.em.fork().find(SigningKeyEntity, {}, { orderBy: { createdAtMs: "desc" } });
      return { keys: rows.map(({ publicJwk }) => publicJwk as JWK) };
    },
  };
}
