import { entryFrom, parseJson } from "./bundle.ts";
import { CommandError, type CommandInput, ServiceFailedError } from "./command.ts";
import { type PublicKey, publicKeysFromJwks } from "./verify/checkpoint.ts";
import { hashesFrom, indexFrom, isJsonRecord, type JsonRecord, required, stringFrom } from "./verify/json.ts";
import type { LogEntry } from "./verify/log-check.ts";
import { VerificationError } from "./verify/verification-error.ts";

const PAGE_SIZE = 500;
/** Milliseconds for one request: enough for a page of large entries over a slow connection. */
const TIMEOUT_MS = 60_000;
const VAULT = "/v1/enforce/vault";

type Query = Readonly<Record<string, string | number>>;
type Call = (path: string, query?: Query, method?: "GET" | "POST") => Promise<JsonRecord>;

/** The vault and the signing keys of a running service, over REST. Its responses are not trusted: the callers verify them. */
export class VaultServer {
  readonly #call: Call;

  /** Connects to the `--url` of a command. Throws `CommandError` if the address or the key is missing. */
  constructor(input: CommandInput) {
    this.#call = createCall(addressFrom(input), keyFrom(input));
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
    const { audit_path } = await this.#call(`${VAULT}/proofs/inclusion`, { index, tree_size: treeSize });
    return required(hashesFrom(audit_path), "the service", "`audit_path` of hashes");
  }

  /** Returns the consistency path from one size of the log to a later one. */
  async consistencyPath(from: number, to: number): Promise<readonly Uint8Array[]> {
    const { path } = await this.#call(`${VAULT}/proofs/consistency`, { from, to });
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
    const { signing_key: key } = await this.#call(`/v1/admin/signing-keys/${keyId}:retire`, {}, "POST");
    const retiredAt = isJsonRecord(key) ? stringFrom(key.retired_at) : undefined;
    return required(retiredAt, "the service", "`retired_at`");
  }

  /** Returns the keys that the service publishes. */
  async publicKeys(): Promise<readonly PublicKey[]> {
    return required(publicKeysFromJwks(await this.#call("/.well-known/jwks.json")), "the service", "key set");
  }
}

function addressFrom(input: CommandInput): URL {
  const text = input.option("url") ?? input.io.env.AGENTCTL_URL ?? "";
  if (text === "") throw new CommandError("no service given: pass --url or set AGENTCTL_URL");
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === "") return url;
  throw new CommandError("--url must have the form http://host:port or https://host, without a user");
}

function keyFrom(input: CommandInput): string {
  const key = input.option("key") ?? input.io.env.AGENTCTL_KEY ?? "";
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new CommandError(
    "no API key given: set AGENTCTL_KEY or pass --key, a key of the role admin, operator or auditor",
  );
}

/** Returns the reason of a failed request, which `fetch` gives only in the cause. */
function reasonOf({ cause, message }: Error): string {
  const { code, message: reason } = (cause ?? {}) as { readonly code?: string; readonly message?: string };
  return code ?? reason ?? message;
}

function createCall(address: URL, key: string): Call {
  const base = address.href.replace(/\/$/, "");
  return async (path, query = {}, method = "GET") => {
    const pairs = Object.entries(query).map(([name, value]) => [name, String(value)]);
    const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    // A redirect would send the key to its target.
    const headers = { "x-api-key": key, ...(method === "POST" && { "content-type": "application/json" }) };
    const body = method === "POST" ? { body: "{}" } : {};
    const init = { method, headers, redirect: "error", signal, ...body } as const;
    const response = fetch(`${base}${path}${search}`, init).then(async (reply) => ({
      isOk: reply.ok,
      status: reply.status,
      json: parseJson(await reply.text()),
    }));
    const { isOk, status, json } = await response.catch((error: Error) => {
      throw new CommandError(`${address.origin} cannot be reached: ${reasonOf(error)}`);
    });
    if (isOk && isJsonRecord(json)) return json;
    const fault = isJsonRecord(json) && isJsonRecord(json.error) ? stringFrom(json.error.message) : undefined;
    const message = `${address.origin} answered ${path} with ${status}: ${fault ?? "no JSON of this service"}`;
    throw status >= 500 ? new ServiceFailedError(message) : new CommandError(message);
  };
}

async function* readEntries(get: Call, size: number | undefined): AsyncGenerator<LogEntry> {
  const range = { from: 0, page_size: PAGE_SIZE, ...(size === undefined ? {} : { to: size }) };
  let pageToken = "";
  let count = 0;
  do {
    const page = await get(`${VAULT}/entries`, pageToken === "" ? range : { ...range, page_token: pageToken });
    const entries = required(Array.isArray(page.entries) ? page.entries : undefined, "the service", "`entries`");
    for (const entry of entries) yield entryFrom(entry, "an entry of the service");
    count += entries.length;
    pageToken = stringFrom(page.next_page_token) ?? "";
    if (entries.length === 0 && pageToken !== "") {
      throw new VerificationError("order", `entry ${count} is missing: the service lists more and has none`, count);
    }
  } while (pageToken !== "");
}
