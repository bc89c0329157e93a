import { entryFrom } from "./bundle.ts";
import type { CommandInput } from "./command.ts";
import { type CallService, serviceFrom } from "./service.ts";
import { type PublicKey, publicKeysFromJwks } from "./verify/checkpoint.ts";
import { hashesFrom, indexFrom, isJsonRecord, required, stringFrom } from "./verify/json.ts";
import type { LogEntry } from "./verify/log-check.ts";
import { VerificationError } from "./verify/verification-error.ts";

const PAGE_SIZE = 500;
const VAULT = "/v1/enforce/vault";

/** The vault and the signing keys of a running service, over REST. Its responses are not trusted: the callers verify them. */
export class VaultServer {
  readonly #call: CallService;

  /** Connects to the `--url` of a command. Throws `CommandError` if the address or the key is missing. */
  constructor(input: CommandInput) {
    this.#call = serviceFrom(input);
  }

  /** Returns the note of the current checkpoint. */
  async checkpoint(): Promise<string> {
    const { note } = await this.#call(`${VAULT}/checkpoint`);
    return required(stringFrom(note), "the service", "`note`");
  }

  /** Reads the entries from the first one up to a size of the log, by default to its end. The service may return fewer. */
  entries(size?: number): AsyncIterable<LogEntry> {
    return readEntries(this.#call, size);
  }

  /** Returns the audit path of an entry in the log at a size. */
  async auditPath(index: number, treeSize: number): Promise<readonly Uint8Array[]> {
    const { audit_path } = await this.#call(`${VAULT}/proofs/inclusion`, { query: { index, tree_size: treeSize } });
    return required(hashesFrom(audit_path), "the service", "`audit_path` of hashes");
  }

  /** Returns the consistency path from one size of the log to a later one. */
  async consistencyPath(from: number, to: number): Promise<readonly Uint8Array[]> {
    const { path } = await this.#call(`${VAULT}/proofs/consistency`, { query: { from, to } });
    return required(hashesFrom(path), "the service", "`path` of hashes");
  }

  /** Returns a decision's index in the log and the sealed text. */
  async decision(decisionId: string): Promise<{ readonly index: number; readonly body: string }> {
    const { receipt } = await this.#call(`/v1/enforce/decisions/${encodeURIComponent(decisionId)}`);
    const { index, canonical_body } = required(isJsonRecord(receipt) ? receipt : undefined, "the service", "`receipt`");
    return {
      index: required(indexFrom(index), "the receipt", "`index`"),
      body: required(stringFrom(canonical_body), "the receipt", "`canonical_body`"),
    };
  }

  /** Retires a signing key. Returns the time as the service gives it. */
  async retireSigningKey(keyId: string): Promise<string> {
    const { signing_key: key } = await this.#call(`/v1/admin/signing-keys/${keyId}:retire`, { method: "POST" });
    const retiredAt = isJsonRecord(key) ? stringFrom(key.retired_at) : undefined;
    return required(retiredAt, "the service", "`retired_at`");
  }

  /** Returns the keys that the service publishes. */
  async publicKeys(): Promise<readonly PublicKey[]> {
    return required(publicKeysFromJwks(await this.#call("/.well-known/jwks.json")), "the service", "key set");
  }
}

async function* readEntries(get: CallService, size: number | undefined): AsyncGenerator<LogEntry> {
  const range = { from: 0, page_size: PAGE_SIZE, ...(size === undefined ? {} : { to: size }) };
  let pageToken = "";
  let count = 0;
  do {
    const page = await get(`${VAULT}/entries`, {
      query: pageToken === "" ? range : { ...range, page_token: pageToken },
    });
    const entries = required(Array.isArray(page.entries) ? page.entries : undefined, "the service", "`entries`");
    for (const entry of entries) yield entryFrom(entry, "an entry of the service");
    count += entries.length;
    pageToken = stringFrom(page.next_page_token) ?? "";
    if (entries.length === 0 && pageToken !== "") {
      throw new VerificationError("order", `entry ${count} is missing: the service lists more and has none`, count);
    }
  } while (pageToken !== "");
}
