import { createHmac, randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { insertMarkKey, type RemarkedValue, readMarkKey, type UnmarkedValue } from "../store/sql/mark-keys.ts";

/** Returns the mark of a text: its keyed digest, by which only the service can tell whether two texts are equal. */
export type Mark = (text: string) => Buffer;

/** Parts of the mark keys. */
export interface MarkKeysOptions {
  readonly pool: Pool;
  readonly encryptor: Encryptor;
}

const KEY_BYTES = 32;
/** Maximum number of workspaces whose keys are cached. */
const MAX_WORKSPACES = 1_000;
/** Place of the key, for the encryptor. */
const PLACE = "mark_key.sealed_key";

/** Place of a registered value, for the encryptor. */
export const valuePlace = (valueId: string): string => `value ${valueId}`;

/** Form of a value for comparison, in which `ACME` and `acme ` are equal. */
const comparable = (value: string): string => value.normalize("NFKC").toLowerCase().replace(/\s+/gu, " ");

/** Returns the mark by which a registered value is found again. */
export const valueMark = (mark: Mark, kind: string, value: string): Buffer => mark(`${kind} ${comparable(value)}`);

/**
 * Keys of the marks of each workspace. A key is random, made on first use and stored encrypted, so that marks stay the same when
 * `ACP_ENCRYPTION_KEY` is replaced, and are the same on every process meanwhile.
 */
export class MarkKeys {
  readonly #options: MarkKeysOptions;
  readonly #known = new LRUCache<string, Promise<Mark>>({ max: MAX_WORKSPACES });

  constructor(options: MarkKeysOptions) {
    this.#options = options;
  }

  /** Returns the mark of a workspace. Rejects with STORE_UNAVAILABLE and ENCRYPTION_KEY_DIFFERS. */
  of(workspaceId: string): Promise<Mark> {
    const known = this.#known.get(workspaceId);
    if (known !== undefined) return known;
    const mark = this.#load(workspaceId);
    this.#known.set(workspaceId, mark);
    mark.catch(() => this.#known.delete(workspaceId));
    return mark;
  }

  async #load(workspaceId: string): Promise<Mark> {
    const key = (await this.#read(workspaceId)) ?? (await this.#create(workspaceId));
    return markWith(key);
  }

  async #read(workspaceId: string): Promise<string | undefined> {
    const { pool, encryptor } = this.#options;
    const { rows } = await stored(pool.query<{ sealedKey: Buffer }>({ ...readMarkKey, values: [workspaceId] }));
    return rows[0] && encryptor.decrypt(workspaceId, PLACE, rows[0].sealedKey);
  }

  /** Returns the key that is stored then, of this process or of one that was faster. */
  async #create(workspaceId: string): Promise<string> {
    const { pool, encryptor } = this.#options;
    const key = randomBytes(KEY_BYTES).toString("base64url");
    const sealed = encryptor.encrypt(workspaceId, PLACE, key);
    const remark = (values: readonly UnmarkedValue[]) => this.#marksOf(workspaceId, markWith(key), values);
    await stored(insertMarkKey(pool, workspaceId, sealed, remark));
    return (await this.#read(workspaceId)) ?? key;
  }

  /** Marks values of before there was a key. Two equal ones keep the marks that tell them apart, as do unreadable ones. */
  #marksOf(workspaceId: string, mark: Mark, values: readonly UnmarkedValue[]): readonly RemarkedValue[] {
    const marks = new Map<string, RemarkedValue>();
    for (const { valueId, kind, sealedValue } of values) {
      const value = this.#openedIfReadable(workspaceId, valueId, sealedValue);
      if (value === undefined) continue;
      const own = valueMark(mark, kind, value);
      const key = own.toString("base64");
      if (!marks.has(key)) marks.set(key, { valueId, mark: own });
    }
    return [...marks.values()];
  }

  #openedIfReadable(workspaceId: string, valueId: string, sealed: Buffer): string | undefined {
    try {
      return this.#options.encryptor.decrypt(workspaceId, valuePlace(valueId), sealed);
    } catch (error) {
      if (error instanceof ControlPlaneError && error.reason === ErrorReason.ENCRYPTION_KEY_DIFFERS) return undefined;
      throw error;
    }
  }
}

const markWith =
  (key: string): Mark =>
  (text) =>
    createHmac("sha256", key).update(text).digest();
