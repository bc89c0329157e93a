import { parseJson } from "./bundle.ts";
import { CommandError, type CommandInput, ServiceFailedError } from "./command.ts";
import { isJsonRecord, type JsonRecord, stringFrom } from "./verify/json.ts";

/** Milliseconds for one request: enough for a page of large entries over a slow connection. */
const TIMEOUT_MS = 60_000;

/** One request to a service, over REST. */
export interface ServiceRequest {
  /** Default `GET`. */
  readonly method?: "GET" | "POST" | "PUT";
  readonly query?: Readonly<Record<string, string | number>>;
  /** Sent as JSON. Default: none, or `{}` where the method has one. */
  readonly body?: object;
}

/**
 * Calls a service and returns its answer. Throws `CommandError` when it refuses or cannot be reached, `ServiceFailedError` for a
 * fault of its own.
 */
export type CallService = (path: string, request?: ServiceRequest) => Promise<JsonRecord>;

/** Connects to the `--url` of a command with its `--key`. Throws `CommandError` if the address or the key is missing. */
export function serviceFrom(input: CommandInput): CallService {
  return createCall(addressFrom(input), keyFrom(input));
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

function createCall(address: URL, key: string): CallService {
  const base = address.href.replace(/\/$/, "");
  return async (path, { method = "GET", query = {}, body } = {}) => {
    const pairs = Object.entries(query).map(([name, value]) => [name, String(value)]);
    const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    // A redirect would send the key to its target.
    const headers = { "x-api-key": key, ...(method !== "GET" && { "content-type": "application/json" }) };
    const sent = method === "GET" ? {} : { body: JSON.stringify(body ?? {}) };
    const init = { method, headers, redirect: "error", signal, ...sent } as const;
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
