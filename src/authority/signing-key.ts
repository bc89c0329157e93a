import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { JWK_EC_Public } from "jose";
import { ControlPlaneError, ErrorReason, notFound } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { DEFAULT_WORKSPACE_ID } from "../registry/workspaces.ts";
import type { SealedSigningKey } from "../state/control-changes.ts";
import { type SigningKey, thumbprintOf } from "../state/signing-keys.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Database, stored } from "../store/database.ts";
import { secretFromFile } from "../store/secret-file.ts";
import { signingKeyEntryId, workspacesWithKey, workspacesWithoutKey } from "../store/sql/signing-keys.ts";

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

/** Dependencies of `SigningKeys`. */
export interface SigningKeysOptions {
  readonly database: Pick<Database, "pool">;
  readonly logs: Pick<WorkspaceLogs, "of">;
  /** ECDSA P-256; signs from now on. */
  readonly privateKey: KeyObject;
}

const BY = "system";

/** A key of a JSON Web Key Set. */
type PublishedKey = JWK_EC_Public & {
  /** RFC 3339 UTC; absent while the key may sign. */
  readonly retired_at?: string;
};

function jwkFrom({ keyId, publicKey, retired }: SigningKey): PublishedKey {
  const { crv, x, y } = publicKey.export({ format: "jwk" }) as JWK_EC_Public;
  const jwk: PublishedKey = { kty: "EC", crv, x, y, kid: keyId, alg: "ES256", use: "sig" };
  return retired === null ? jwk : { ...jwk, retired_at: new Date(retired.atMs).toISOString() };
}

/** Returns the public part of a private key as logs seal it. */
export function sealedFrom(privateKey: KeyObject): SealedSigningKey {
  const publicKey = createPublicKey(privateKey);
  const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
  return { key_id: thumbprintOf(publicKey), public_key: pem };
}

/**
 * The service's private signing key, and the public keys of all it ever signed with. Only the logs of the workspaces define
 * them: a key that is not sealed there is neither published nor trusted. A retired key verifies signatures from before its
 * retirement.
 */
export class SigningKeys {
  /** RFC 7638 thumbprint of the key in use. */
  readonly keyId: string;
  /** ECDSA P-256; the key in use. */
  readonly privateKey: KeyObject;
  /** PEM (SubjectPublicKeyInfo) of the key in use. */
  readonly publicPem: string;
  /** The key in use as logs seal it. */
  readonly sealed: SealedSigningKey;
  readonly #pool: Database["pool"];
  readonly #logs: Pick<WorkspaceLogs, "of">;

  constructor({ database, logs, privateKey }: SigningKeysOptions) {
    this.privateKey = privateKey;
    this.sealed = sealedFrom(privateKey);
    this.keyId = this.sealed.key_id;
    this.publicPem = this.sealed.public_key;
    this.#pool = database.pool;
    this.#logs = logs;
  }

  /** Signs with ECDSA P-256 and SHA-256. Returns DER. MUST follow `sealIn` for the log that the signature belongs to. */
  sign(bytes: Uint8Array): Buffer {
    return sign("sha256", bytes, this.privateKey);
  }

  /**
   * Seals the key in use in a log that does not hold it yet. Returns the state at the end of the log. Rejects with
   * SIGNING_KEY_RETIRED.
   */
  async sealIn(log: WorkspaceLog): Promise<WorkspaceState> {
    const state = await log.caughtUp();
    this.assertMaySign(state);
    if (state.signingKeys.get(this.keyId) !== undefined) return state;
    const home = await this.#stateOf(DEFAULT_WORKSPACE_ID);
    if (home !== undefined) this.assertMaySign(home);
    await log.change(BY, async ({ state: latest, seal }) => {
      if (latest.signingKeys.get(this.keyId) === undefined)
        seal({ type: "signing_key_added", signing_key: this.sealed });
    });
    return log.caughtUp();
  }

  /** Seals the key in use in every log that does not hold it. Rejects with SIGNING_KEY_RETIRED. */
  async sealEverywhere(): Promise<void> {
    const home = await this.#stateOf(DEFAULT_WORKSPACE_ID);
    if (home !== undefined) this.assertMaySign(home);
    const values = [this.keyId, signingKeyEntryId.added(this.keyId)];
    const { rows } = await stored(this.#pool.query<{ workspaceId: string }>({ ...workspacesWithoutKey, values }));
    for (const { workspaceId } of rows) await this.sealIn(await this.#logs.of(workspaceId));
  }

  /** Throws SIGNING_KEY_RETIRED if a log has retired the key in use. */
  assertMaySign({ signingKeys }: WorkspaceState): void {
    const retired = signingKeys.get(this.keyId)?.retired ?? null;
    if (retired === null) return;
    const message = `the signing key \`${this.keyId}\` of this process was retired: set ACP_SIGNING_KEY to another, or, where it is unset, remove \`signing-key.pem\` from ACP_DATA_DIR`;
    throw new ControlPlaneError(ErrorReason.SIGNING_KEY_RETIRED, message, { key_id: this.keyId });
  }

  /** Finds a key that a workspace's log seals; undefined for any other. */
  async find(workspaceId: string, keyId: string): Promise<SigningKey | undefined> {
    return (await this.#stateOf(workspaceId))?.signingKeys.get(keyId);
  }

  /** Returns all sealed keys, newest first, as a JSON Web Key Set (RFC 7517); retired ones with the member `retired_at`. */
  async jwks(): Promise<{ keys: PublishedKey[] }> {
    const home = await this.#stateOf(DEFAULT_WORKSPACE_ID);
    return { keys: (home?.signingKeys.all() ?? []).map(jwkFrom).reverse() };
  }

  /**
   * Retires a key in every workspace's log, beginning with `default`. Returns it. Retiring again completes what was
   * interrupted and changes nothing else. Rejects with SIGNING_KEY_NOT_FOUND, and with SIGNING_KEY_ACTIVE for the key in use.
   */
  async retire(by: string, keyId: string): Promise<SigningKey> {
    if ((await this.find(DEFAULT_WORKSPACE_ID, keyId)) === undefined) {
      throw notFound(ErrorReason.SIGNING_KEY_NOT_FOUND, "signing key", { key_id: keyId });
    }
    if (keyId === this.keyId) throw inUse(keyId);
    const values = [keyId, signingKeyEntryId.added(keyId), signingKeyEntryId.retired(keyId)];
    const { rows } = await stored(this.#pool.query<{ workspaceId: string }>({ ...workspacesWithKey, values }));
    // `default` first: its log decides which keys may sign in workspaces that do not know them.
    const ids = rows.map(({ workspaceId }) => workspaceId);
    ids.sort((a, b) => Number(b === DEFAULT_WORKSPACE_ID) - Number(a === DEFAULT_WORKSPACE_ID));
    for (const workspaceId of ids) await retireIn(await this.#logs.of(workspaceId), by, keyId);
    return (await this.find(DEFAULT_WORKSPACE_ID, keyId)) as SigningKey;
  }

  async #stateOf(workspaceId: string): Promise<WorkspaceState | undefined> {
    try {
      return await (await this.#logs.of(workspaceId)).caughtUp();
    } catch (error) {
      if (error instanceof ControlPlaneError && error.reason === ErrorReason.WORKSPACE_NOT_FOUND) return undefined;
      throw error;
    }
  }
}

async function retireIn(log: WorkspaceLog, by: string, keyId: string): Promise<void> {
  await log.change(by, async ({ state, seal }) => {
    if (state.signingKeys.get(keyId)?.retired === null) seal({ type: "signing_key_retired", key_id: keyId });
  });
}

function inUse(keyId: string): ControlPlaneError {
  const message = `the signing key \`${keyId}\` is in use: start every process with another ACP_SIGNING_KEY, then retire it`;
  return new ControlPlaneError(ErrorReason.SIGNING_KEY_ACTIVE, message, { key_id: keyId });
}
