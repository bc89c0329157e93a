import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { isJsonRecord, type JsonRecord, listAt, numberAt, stringFrom, textAt } from "../verify/json.ts";
import { parseJson } from "./bundle.ts";
import { adviceFor, type ClientCertificate, clientCertificateFrom, fetchWith } from "./client-certificate.ts";
import { CommandError, type CommandInput, ServiceError, ServiceFailedError } from "./command.ts";
import { readInput } from "./input-file.ts";

/** Time limit of one request in milliseconds: enough for a page of large entries over a slow connection. */
const TIMEOUT_MS = 60_000;

/** One request to a service, over REST. */
export interface ServiceRequest {
  /** Default `GET`. */
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly query?: Readonly<Record<string, string | number>>;
  /** Body, sent as JSON. Default: no body, or `{}` if the method takes one. */
  readonly body?: object;
  /** Deadline in milliseconds. Default: the service's own. */
  readonly timeoutMs?: number;
  /** Media type of the response. Default: the service's choice. */
  readonly accept?: string;
}

/** Error for a request that the service refused, with the fields at fault. */
export class RequestRefusedError extends ServiceError {
  readonly status: number;
  /** Stable reason of the error, such as `MANDATE_INVALID`. */
  readonly reason: string;
  readonly violations: readonly { readonly field: string; readonly reason: string; readonly description: string }[];

  constructor(message: string, status: number, details: readonly JsonRecord[]) {
    super(message);
    this.status = status;
    this.reason = details.map((detail) => stringFrom(detail.reason)).find((word) => word !== undefined) ?? "";
    this.violations = details
      .flatMap((detail) => listAt(detail, "field_violations"))
      .map((each) => ({
        field: textAt(each, "field"),
        reason: textAt(each, "reason"),
        description: textAt(each, "description"),
      }));
  }
}

/**
 * Calls a service and returns its response. Throws `RequestRefusedError` if the service refuses, `CommandError` if it cannot be
 * reached, and `ServiceFailedError` for a fault of the service.
 */
export type CallService = (path: string, request?: ServiceRequest) => Promise<JsonRecord>;

/** Connects to the `--url` of a command with its `--key`. Throws `CommandError` if the address or the key is missing. */
export function serviceFrom(input: CommandInput): CallService {
  return createCall(connectionFrom(input));
}

/**
 * Calls a method with a stream of lines as its response, and yields each line. Throws like `CallService`, also for an error in
 * the middle of the stream.
 */
export async function* streamFrom(input: CommandInput, path: string, body: object): AsyncGenerator<JsonRecord> {
  const { address, send } = connectionFrom(input);
  const request = { method: "POST", body, accept: "application/x-ndjson" } as const;
  const reply = await send(path, request, null);
  if (!reply.ok || reply.body === null) answerFrom(address, path, reply, parseJson(await reply.text()));
  const lines = createInterface({ input: Readable.fromWeb(reply.body as never), crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) {
      const json = parseJson(line);
      if (!isJsonRecord(json) || json.error !== undefined) {
        // The response of a stream that fails later has the status of one that succeeds.
        answerFrom(address, path, { ok: false, status: numberAt(json, "error.code") ?? reply.status }, json);
      } else yield json;
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new ServiceError(`${address.origin} broke off its response to ${path}: ${reasonOf(error as Error)}`);
  }
}

/** Returns the address of the service that a command calls. Throws `CommandError` as `serviceFrom` does. */
export function addressFrom(input: CommandInput): URL {
  const text = input.option("url") ?? input.io.env.AGENTCTL_URL ?? "";
  if (text === "") throw new CommandError("no service given: pass --url or set AGENTCTL_URL");
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === "") return url;
  throw new CommandError("--url must have the form http://host:port or https://host, without a user");
}

function keyFrom(input: CommandInput): string {
  const file = input.option("key-file");
  const key = file === undefined ? (input.io.env.AGENTCTL_KEY ?? "") : readInput(file, input.io).trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new CommandError(
    "no API key given: set AGENTCTL_KEY or pass --key-file, with a key of the role admin, operator or auditor",
  );
}

/** Returns the reason of a failed request, which `fetch` gives only in the cause. */
function reasonOf({ cause, message }: Error): string {
  const { code, message: reason } = (cause ?? {}) as { readonly code?: string; readonly message?: string };
  return code ?? reason ?? message;
}

function createCall({ address, certificate, send }: Connection): CallService {
  return async (path, request = {}) => {
    const reply = await send(path, request, AbortSignal.timeout(Math.max(TIMEOUT_MS, request.timeoutMs ?? 0)));
    const text = await reply.text().catch((error: Error) => {
      throw unreachable(address, error, certificate);
    });
    return answerFrom(address, path, reply, parseJson(text));
  };
}

type Send = (path: string, request: ServiceRequest, signal: AbortSignal | null) => Promise<Response>;

/** Way to the service. */
interface Connection {
  readonly address: URL;
  readonly certificate: ClientCertificate | undefined;
  readonly send: Send;
}

function connectionFrom(input: CommandInput): Connection {
  const [address, key, certificate] = [addressFrom(input), keyFrom(input), clientCertificateFrom(input.io)];
  const fetch = fetchWith(certificate);
  const base = address.href.replace(/\/$/, "");
  const send: Send = (path, { method = "GET", query = {}, body, timeoutMs, accept }, signal) => {
    const pairs = Object.entries(query).map(([name, value]) => [name, String(value)]);
    const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
    const headers = {
      "x-api-key": key,
      ...(method !== "GET" && { "content-type": "application/json" }),
      ...(timeoutMs !== undefined && { "x-request-timeout-ms": String(timeoutMs) }),
      ...(accept !== undefined && { accept }),
    };
    const sent = method === "GET" ? {} : { body: JSON.stringify(body ?? {}) };
    // A redirect would send the key to its target.
    const init = { method, headers, redirect: "error", signal, ...sent } as const;
    return fetch(`${base}${path}${search}`, init).catch((error: Error) => {
      throw unreachable(address, error, certificate);
    });
  };
  return { address, certificate, send };
}

function answerFrom(
  address: URL,
  path: string,
  { ok, status }: Pick<Response, "ok" | "status">,
  json: unknown,
): JsonRecord {
  if (ok && isJsonRecord(json)) return json;
  const fault = isJsonRecord(json) && isJsonRecord(json.error) ? stringFrom(json.error.message) : undefined;
  const message = `${address.origin} answered ${path} with ${status}: ${fault ?? "not JSON of this service"}`;
  if (status >= 500) throw new ServiceFailedError(message);
  throw new RequestRefusedError(message, status, listAt(json, "error.details").filter(isJsonRecord));
}

function unreachable(address: URL, error: Error, certificate: ClientCertificate | undefined): ServiceError {
  const reason = reasonOf(error);
  const advice = address.protocol === "https:" ? adviceFor(reason, certificate) : "";
  return new ServiceError(`${address.origin} cannot be reached: ${reason}${advice}`);
}
