import type { SignedCheckpoint } from "./checkpoint.ts";
import { isJsonRecord, type JsonRecord } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

/** Signing keys sealed by the entries of a log. A log written by a service begins with one. */
export class SealedKeys {
  /** Index of the entry that retired a key, by thumbprint; undefined while it may sign. */
  readonly #retiredAt = new Map<unknown, number | undefined>();
  /** True once the log began with its workspace; a log of another origin seals no keys. */
  #isWorkspaceLog = false;

  /** Records the signing key that an entry adds or retires. MUST be called for every entry, in order. */
  add({ type, signing_key: key, key_id: keyId }: JsonRecord, index: number): void {
    if (index === 0) this.#isWorkspaceLog = type === "workspace_created";
    const isSealing = type === "workspace_created" || type === "signing_key_added";
    if (isSealing && isJsonRecord(key) && !this.#retiredAt.has(key.key_id)) this.#retiredAt.set(key.key_id, undefined);
    const isFirst = this.#retiredAt.has(keyId) && this.#retiredAt.get(keyId) === undefined;
    if (type === "signing_key_retired" && isFirst) this.#retiredAt.set(keyId, index);
  }

  /** Refuses a checkpoint by a key that the log does not seal, or one larger than the log was when its key retired. */
  assertSigned({ key, treeSize }: SignedCheckpoint): void {
    if (!this.#isWorkspaceLog) return;
    const { thumbprint } = key;
    const which = `the checkpoint of size ${treeSize} is signed with key \`${thumbprint}\``;
    if (!this.#retiredAt.has(thumbprint)) {
      throw new VerificationError("signature", `${which}, which the log does not seal`);
    }
    const retiredAt = this.#retiredAt.get(thumbprint);
    if (retiredAt === undefined || treeSize <= retiredAt) return;
    throw new VerificationError("signature", `${which}, which entry ${retiredAt} retired`);
  }
}
