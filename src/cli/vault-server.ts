import { entryFrom, jsonFrom } from "./bundle.ts";
import { CommandError, type CommandInput, ServiceFailedError } from "./command.ts";
import {
  hashesFrom,
  indexFrom,
  isMembers,
  type JsonMembers,
  type LogEntry,
  type PublicKey,
  publicKeysFromJwks,
  required,
  textFrom,
  VerificationError,
} from "./verify/index.ts";

/** The vault of a running service, over REST. Nothing that it says is believed: its callers verify. */
export interface VaultServer {
  /** The checkpoint of the log as it is now: the note. */
  checkpoint(): Promise<string>;
  /** The entries from the first one on, up to a size of the log, by default to its end; fewer when it gives no more. */
  entries(size?: number): AsyncIterable<LogEntry>;
  /** The audit path of an entry in the log of a size. */
  auditPath(index: number, treeSize: number): Promise<readonly Uint8Array[]>;
  /** The path from one size of the log to a later one. */
  consistencyPath(from: number, to: number): Promise<readonly Uint8Array[]>;
  /** A decision's index in the log, and the text that was sealed. */
  decision(decisionId: string): Promise<{ readonly index: number; readonly body: string }>;
  /** The keys that the service publishes. */
  publicKeys(): Promise<readonly PublicKey[]>;
}

const PAGE_SIZE = 500;
/** Milliseconds of one request: a page of large entries over a slow line fits. */
const TIMEOUT_MS = 60_000;
const VAULT = "/v1/enforce/vault";

type Query = Readonly<Record<string, string | number>>;
type Get = (path: string, query?: Query) => Promise<JsonMembers>;

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

/** Why a request failed: fetch says so only in the cause. */
function whyOf({ cause, message }: Error): string {
  const { code, message: why } = (cause ?? {}) as { readonly code?: string; readonly message?: string };
  return code ?? why ?? message;
}

function createGet(address: URL, key: string): Get {
  const base = address.href.replace(/\/$/, "");
  return async (path, query = {}) => {
    const pairs = Object.entries(query).map(([name, value]) => [name, String(value)]);
    const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    // A redirect would carry the key to wherever it leads.
    const init = { headers: { "x-api-key": key }, redirect: "error", signal } as const;
    const answered = fetch(`${base}${path}${search}`, init).then(async (response) => ({
      isOk: response.ok,
      status: response.status,
      json: jsonFrom(await response.text()),
    }));
    const { isOk, status, json } = await answered.catch((error: Error) => {
      throw new CommandError(`${address.origin} cannot be reached: ${whyOf(error)}`);
    });
    if (isOk && isMembers(json)) return json;
    const fault = isMembers(json) && isMembers(json.error) ? textFrom(json.error.message) : undefined;
    const message = `${address.origin} answered ${path} with ${status}: ${fault ?? "no JSON of this service"}`;
    throw status >= 500 ? new ServiceFailedError(message) : new CommandError(message);
  };
}

async function* entriesOf(get: Get, size: number | undefined): AsyncGenerator<LogEntry> {
  const range = { from: 0, page_size: PAGE_SIZE, ...(size === undefined ? {} : { to: size }) };
  let pageToken = "";
  let count = 0;
  do {
    const page = await get(`${VAULT}/entries`, pageToken === "" ? range : { ...range, page_token: pageToken });
    const entries = required(Array.isArray(page.entries) ? page.entries : undefined, "the service", "`entries`");
    for (const entry of entries) yield entryFrom(entry, "an entry of the service");
    count += entries.length;
    pageToken = textFrom(page.next_page_token) ?? "";
    if (entries.length === 0 && pageToken !== "") {
      throw new VerificationError("order", `entry ${count} is missing: the service lists more and has none`, count);
    }
  } while (pageToken !== "");
}

/** The vault of the service that a command was pointed at. Throws `CommandError` when address or key is missing. */
export function createVaultServer(input: CommandInput): VaultServer {
  const get = createGet(addressFrom(input), keyFrom(input));
  return {
    async checkpoint() {
      const { note } = await get(`${VAULT}/checkpoint`);
      return required(textFrom(note), "the service", "`note`");
    },
    entries: (size) => entriesOf(get, size),
    async auditPath(index, treeSize) {
      const { audit_path } = await get(`${VAULT}/proofs/inclusion`, { index, tree_size: treeSize });
      return required(hashesFrom(audit_path), "the service", "`audit_path` of hashes");
    },
    async consistencyPath(from, to) {
      const { path } = await get(`${VAULT}/proofs/consistency`, { from, to });
      return required(hashesFrom(path), "the service", "`path` of hashes");
    },
    async decision(decisionId) {
      const { receipt } = await get(`/v1/enforce/decisions/${encodeURIComponent(decisionId)}`);
      const { index, canonical_body } = required(isMembers(receipt) ? receipt : undefined, "the service", "`receipt`");
      return {
        index: required(indexFrom(index), "the receipt", "`index`"),
        body: required(textFrom(canonical_body), "the receipt", "`canonical_body`"),
      };
    },
    async publicKeys() {
      return required(publicKeysFromJwks(await get("/.well-known/jwks.json")), "the service", "key set");
    },
  };
}
