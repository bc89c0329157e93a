import { entryFrom } from "../verify/bundle.ts";
import { type Bytes, bytesFromBase64, HASH_BYTES, hashesFrom } from "../verify/bytes.ts";
import type { AnsweredCheckpoint } from "../verify/checkpoint.ts";
import type { AnsweredConsistency } from "../verify/consistency.ts";
import type { LogEntry } from "../verify/entry.ts";
import type { AnsweredProof } from "../verify/inclusion.ts";
import { indexFrom, isJsonRecord, type JsonRecord, required, stringFrom } from "../verify/json.ts";
import { type PublicKey, publicKeysFromJwks } from "../verify/public-key.ts";
import { VerificationError } from "../verify/verification-error.ts";
import type { CommandInput } from "./command.ts";
import { type CallService, serviceFrom } from "./service.ts";

const PAGE_SIZE = 500;
const VAULT = "/v1/enforce/vault";
/** Name of the service in faults. */
const SERVICE = "the service";

/** The vault and the signing keys of a running service, over REST. Its responses are not trusted: the callers verify them. */
export class VaultServer {
  readonly #call: CallService;

  /** Connects to the `--url` of a command. Throws `CommandError` if the address or the key is missing. */
  constructor(input: CommandInput) {
    this.#call = serviceFrom(input);
  }

  /** Returns the current checkpoint. */
  async checkpoint(): Promise<AnsweredCheckpoint> {
    return checkpointFrom(await this.#call(`${VAULT}/checkpoint`));
  }

  /** Reads the entries from the first one up to a size of the log, by default to its end. The service may return fewer. */
  entries(size?: number): AsyncIterable<LogEntry> {
    return readEntries(this.#call, size);
  }

  /** Returns the proof of an entry in the log at a size. */
  async inclusion(index: number, treeSize: number): Promise<AnsweredProof> {
    const proof = await this.#call(`${VAULT}/proofs/inclusion`, { query: { index, tree_size: treeSize } });
    return {
      leafIndex: int64In(proof, "leaf_index"),
      leafHash: hashIn(proof, "leaf_hash"),
      treeSize: int64In(proof, "tree_size"),
      auditPath: pathIn(proof, "audit_path"),
      rootHash: hashIn(proof, "root_hash"),
      checkpoint: isJsonRecord(proof.checkpoint) ? checkpointFrom(proof.checkpoint) : undefined,
    };
  }

  /** Returns the proof that the log at a size begins with the log at an earlier one. */
  async consistency(from: number, to: number): Promise<AnsweredConsistency> {
    const proof = await this.#call(`${VAULT}/proofs/consistency`, { query: { from, to } });
    return {
      from: int64In(proof, "from"),
      to: int64In(proof, "to"),
      path: pathIn(proof, "path"),
      fromRoot: hashIn(proof, "from_root"),
      toRoot: hashIn(proof, "to_root"),
    };
  }

  /** Returns the response for a decision, and the entry in its receipt. */
  async decision(decisionId: string): Promise<{ readonly answer: JsonRecord; readonly entry: LogEntry }> {
    const answer = await this.#call(`/v1/enforce/decisions/${encodeURIComponent(decisionId)}`);
    const receipt = required(isJsonRecord(answer.receipt) ? answer.receipt : undefined, SERVICE, "`receipt`");
    const { index, leaf_hash, canonical_body: body } = receipt;
    return { answer, entry: entryFrom({ index, leaf_hash, body }, "the receipt") };
  }

  /** Retires a signing key. Returns the time in the service's response. */
  async retireSigningKey(keyId: string): Promise<string> {
    const { signing_key: key } = await this.#call(`/v1/admin/signing-keys/${keyId}:retire`, { method: "POST" });
    const retiredAt = isJsonRecord(key) ? stringFrom(key.retired_at) : undefined;
    return required(retiredAt, SERVICE, "`retired_at`");
  }

  /** Returns the keys that the service publishes. */
  async publicKeys(): Promise<readonly PublicKey[]> {
    return required(await publicKeysFromJwks(await this.#call("/.well-known/jwks.json")), SERVICE, "key set");
  }
}

function checkpointFrom(answer: JsonRecord): AnsweredCheckpoint {
  return {
    origin: textIn(answer, "origin"),
    treeSize: int64In(answer, "tree_size"),
    rootHash: hashIn(answer, "root_hash"),
    note: textIn(answer, "note"),
    verifierKey: textIn(answer, "verifier_key"),
  };
}

const textIn = (answer: JsonRecord, name: string): string => required(stringFrom(answer[name]), SERVICE, `\`${name}\``);
const int64In = (answer: JsonRecord, name: string): bigint =>
  BigInt(required(indexFrom(answer[name]), SERVICE, `\`${name}\``));
const hashIn = (answer: JsonRecord, name: string): Bytes =>
  required(bytesFromBase64(answer[name], HASH_BYTES), SERVICE, `\`${name}\` of 32 bytes in base64`);
const pathIn = (answer: JsonRecord, name: string): readonly Bytes[] =>
  required(hashesFrom(answer[name]), SERVICE, `\`${name}\` of hashes`);

async function* readEntries(get: CallService, size: number | undefined): AsyncGenerator<LogEntry> {
  const range = { from: 0, page_size: PAGE_SIZE, ...(size === undefined ? {} : { to: size }) };
  let pageToken = "";
  let count = 0;
  do {
    const page = await get(`${VAULT}/entries`, {
      query: pageToken === "" ? range : { ...range, page_token: pageToken },
    });
    const entries = required(Array.isArray(page.entries) ? page.entries : undefined, SERVICE, "`entries`");
    for (const entry of entries) {
      const authorName = isJsonRecord(entry) ? stringFrom(entry.author_name) : undefined;
      yield { ...entryFrom(entry, "an entry of the service"), authorName };
    }
    count += entries.length;
    pageToken = stringFrom(page.next_page_token) ?? "";
    if (entries.length === 0 && pageToken !== "") {
      throw new VerificationError("order", `entry ${count} is missing: the service lists more and has none`, count);
    }
  } while (pageToken !== "");
}
