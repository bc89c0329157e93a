import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { sessionEnded } from "../log/observation.ts";
import { KEY_BYTES, ownedBytes } from "../provenance/digests.ts";
import type { SessionKeys } from "../state/session-keys.ts";
import { stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { insertSessionKey, readSessionKey } from "../store/sql/observations.ts";

/** Keys in memory, and for how long one stays, milliseconds: it outlives its session by no more. */
const KEPT_KEYS = 2_000;
const KEPT_MS = 30_000;

const placeOf = (sessionId: string): string => `session_key.sealed_key ${sessionId}`;

/** The keys under which the digests of sessions are made: 32 random bytes each, encrypted at rest. */
export class StoredSessionKeys implements SessionKeys {
  readonly #pool: Pool;
  readonly #encryptor: Encryptor;
  readonly #kept = new LRUCache<string, Buffer>({ max: KEPT_KEYS, ttl: KEPT_MS, ttlAutopurge: true });

  constructor({ pool, encryptor }: { readonly pool: Pool; readonly encryptor: Encryptor }) {
    this.#pool = pool;
    this.#encryptor = encryptor;
  }

  decrypt(workspaceId: string, sessionId: string, sealedKey: Uint8Array): Buffer {
    return ownedBytes(Buffer.from(this.#encryptor.decrypt(workspaceId, placeOf(sessionId), sealedKey), "base64"));
  }

  /** Returns the key of a session, which is made on first use. Rejects with SESSION_ENDED and STORE_UNAVAILABLE. */
  async keyOf(workspaceId: string, sessionId: string): Promise<Buffer> {
    const name = `${workspaceId} ${sessionId}`;
    const known = this.#kept.get(name);
    if (known !== undefined) return known;
    const key = (await this.#read(workspaceId, sessionId)) ?? (await this.#create(workspaceId, sessionId));
    this.#kept.set(name, key);
    return key;
  }

  async #read(workspaceId: string, sessionId: string): Promise<Buffer | undefined> {
    const values = [workspaceId, sessionId];
    const { rows } = await stored(this.#pool.query<{ sealedKey: Buffer }>({ ...readSessionKey, values }));
    return rows[0] && this.decrypt(workspaceId, sessionId, rows[0].sealedKey);
  }

  async #create(workspaceId: string, sessionId: string): Promise<Buffer> {
    const text = randomBytes(KEY_BYTES).toString("base64");
    const sealed = this.#encryptor.encrypt(workspaceId, placeOf(sessionId), text);
    await stored(this.#pool.query({ ...insertSessionKey, values: [workspaceId, sessionId, sealed] }));
    // Another replica may have been first.
    const key = await this.#read(workspaceId, sessionId);
    if (key === undefined) throw sessionEnded(sessionId);
    return key;
  }
}
