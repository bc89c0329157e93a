import type { LookupAddress } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import * as http from "node:http";
import * as https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { finished } from "node:stream/promises";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { checkedText } from "../registry/checked-text.ts";
import { createAddressTest } from "./address-ranges.ts";

/** Resolves a host name to all its addresses. Rejects if it has none. */
export type Lookup = (hostname: string) => Promise<readonly LookupAddress[]>;

/** A receiver's response, or the reason for its absence in one line without an address. */
export type TargetAnswer =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly retryAfter: string | undefined;
      /** First bytes of the body, if the request asked for it. */
      readonly body?: string;
    }
  | { readonly kind: "fault"; readonly error: string };

/** A request to a URL of a user. */
export interface TargetRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** True to return the body of the response, up to 64 KiB. Default false. */
  readonly readsBody?: boolean;
  /** Timeout of the whole request: resolving, connecting, the response. */
  readonly timeoutMs: number;
  /** Aborts the request. */
  readonly signal?: AbortSignal;
}

/** Guarded requests to URLs of users, as protection against server-side request forgery. */
export interface Targets {
  /**
   * Checks a URL. Rejects with INVALID_FIELD if it is not http or https, cannot be stored, carries credentials or names a host
   * that cannot be resolved, and with TARGET_NOT_ALLOWED if it leads to an address that is not allowed. `field` is the name of
   * the URL's field in the request, by default `url`.
   */
  check(url: string, field?: string): Promise<void>;
  /**
   * Returns the addresses of a host name, for connections that others open to one of them. Rejects with TARGET_NOT_ALLOWED, and with
   * INVALID_FIELD for a name that cannot be resolved, or not before `signal` aborts. `field` is the name of the host's field in the
   * request.
   */
  addressesOf(host: string, field: string, signal?: AbortSignal): Promise<readonly LookupAddress[]>;
  /** Resolves names for connections that others open, only to allowed addresses. */
  readonly lookup: LookupFunction;
  /**
   * Resolves the host, checks every address, and posts once to the checked addresses, so that a name that changes its address
   * after the check cannot redirect the request. Does not follow redirects. MUST NOT reject.
   */
  post(request: TargetRequest): Promise<TargetAnswer>;
}

/** Options of `createTargets`. */
interface TargetsOptions {
  /** CIDR blocks of private addresses that are allowed. */
  readonly allow: readonly string[];
  /** Default: the system's resolver. */
  readonly lookup?: Lookup | undefined;
  /** Purpose of the URLs in messages. Default: webhooks. */
  readonly purpose?: string;
}

const FIELD = "url";
/** Maximum bytes of a response's body that are read. Only the status matters. */
const MAX_ANSWER_BYTES = 65_536;
/** Milliseconds for connecting to one of several addresses before the next one is tried in parallel. */
const NEXT_ADDRESS_MS = 1_000;

const FAULTS: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "the connection was refused"],
  ["ECONNRESET", "the connection was closed before an answer"],
  ["EPIPE", "the connection was closed before an answer"],
  ["EHOSTUNREACH", "the host cannot be reached"],
  ["ENETUNREACH", "the host cannot be reached"],
  ["ETIMEDOUT", "the connection timed out"],
]);

const defaultLookup: Lookup = (hostname) => systemLookup(hostname, { all: true });

function notAllowed(host: string, purpose: string, field = FIELD): ControlPlaneError {
  const message = `\`${host}\` leads to an address that is not allowed for ${purpose}`;
  const violations = [{ field, description: "leads to an address that is not allowed", reason: "NOT_ALLOWED" }];
  return new ControlPlaneError(ErrorReason.TARGET_NOT_ALLOWED, message, { host }, { violations });
}

function urlFrom(text: string, field = FIELD): URL {
  const url = URL.canParse(checkedText(field, text)) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) {
    throw invalidField(field, "must be an `http` or `https` URL");
  }
  if (url.username !== "" || url.password !== "") throw invalidField(field, "must not carry credentials");
  return url;
}

const hostOf = ({ hostname }: URL): string => (hostname.startsWith("[") ? hostname.slice(1, -1) : hostname);

/** Settles as `work` does, or rejects as soon as the signal aborts, for work that cannot be aborted itself. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // Nobody awaits work that is given up.
  work.catch(() => undefined);
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const fail = (): void => reject(signal.reason);
  signal.addEventListener("abort", fail, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", fail);
  }
}

// The system's messages are not passed on: they contain addresses, which a user who gave a host name must not learn.
function faultFrom(error: unknown): string {
  const code = String((error as { code?: unknown }).code ?? "");
  return FAULTS.get(code) ?? (code === "" ? "the request failed" : `the request failed: ${code}`);
}

/** Creates a resolver that knows only the given addresses. */
const pinnedTo =
  (addresses: readonly LookupAddress[]): LookupFunction =>
  (_hostname, { all }, callback) => {
    const [first] = addresses;
    if (first === undefined) callback(Object.assign(new Error("no address"), { code: "ENOTFOUND" }), "");
    else if (all === true) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };

/** Reads the body of a response, and returns its text if `keeps`. */
async function bodyOf(response: http.IncomingMessage, keeps: boolean): Promise<string | undefined> {
  let bytes = 0;
  const chunks: Buffer[] = [];
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) response.destroy();
    else if (keeps) chunks.push(chunk);
  });
  // A response that breaks off after its status still counts.
  await finished(response).catch(() => undefined);
  return keeps ? Buffer.concat(chunks).toString("utf8") : undefined;
}

/**
 * Posts once, only to one of the given addresses, under the host name of the URL (`Host`, SNI, certificate). A redirect is a
 * response like any other. MUST NOT reject.
 */
function postTo(
  addresses: readonly LookupAddress[],
  url: URL,
  { headers, body, readsBody = false }: TargetRequest,
  signal: AbortSignal,
): Promise<TargetAnswer> {
  return new Promise((resolve) => {
    const { request: open } = url.protocol === "https:" ? https : http;
    const request = open(url, {
      method: "POST",
      headers: { ...headers, "Content-Length": Buffer.byteLength(body) },
      // A reused connection could lead to an address that was checked for an earlier request.
      agent: false,
      lookup: pinnedTo(addresses),
      autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
      signal,
    } as https.RequestOptions);
    let isAnswered = false;
    request.on("error", (error) => {
      if (!isAnswered) resolve({ kind: "fault", error: faultFrom(error) });
    });
    request.on("close", () => {
      // Some replies, such as a protocol upgrade, emit neither `response` nor `error`.
      if (!isAnswered) resolve({ kind: "fault", error: "the connection was closed before an answer" });
    });
    request.on("response", (response) => {
      isAnswered = true;
      const { statusCode: status = 0, headers: answered } = response;
      void bodyOf(response, readsBody).then((text) => {
        request.destroy();
        const answer = { kind: "answer", status, retryAfter: answered["retry-after"] } as const;
        resolve(text === undefined ? answer : { ...answer, body: text });
      });
    });
    request.end(body);
  });
}

/** Creates the targets. */
export function createTargets({ allow, lookup = defaultLookup, purpose = "webhooks" }: TargetsOptions): Targets {
  const isAllowed = createAddressTest(allow);
  const purposeOf = (field: string): string => (field === "llm_url" ? "a model's service" : purpose);

  const resolve = (url: URL, field = FIELD): Promise<readonly LookupAddress[]> => resolveHost(hostOf(url), field);

  const resolveHost = async (host: string, field: string): Promise<readonly LookupAddress[]> => {
    const family = isIP(host);
    const addresses = family === 0 ? await lookup(host) : [{ address: host, family }];
    // Every address has to be allowed: with a public and a private address, the connection might use the private one.
    if (addresses.length === 0 || !addresses.every(({ address }) => isAllowed(address)))
      throw notAllowed(host, purposeOf(field), field);
    return addresses;
  };

  const post = async (request: TargetRequest, signal: AbortSignal): Promise<TargetAnswer> => {
    try {
      const url = urlFrom(request.url);
      const addresses = await unlessAborted(resolve(url), signal);
      return await postTo(addresses, url, request, signal);
    } catch (error) {
      const isRefusal = error instanceof ControlPlaneError;
      return { kind: "fault", error: isRefusal ? error.message : "the host name cannot be resolved" };
    }
  };

  const orUnknownHost = async (resolving: Promise<readonly LookupAddress[]>, field: string) => {
    try {
      return await resolving;
    } catch (error) {
      if (error instanceof ControlPlaneError) throw error;
      throw invalidField(field, "names a host that cannot be resolved", error);
    }
  };

  return {
    addressesOf(host, field, signal) {
      const resolving = resolveHost(host, field);
      return orUnknownHost(signal === undefined ? resolving : unlessAborted(resolving, signal), field);
    },

    lookup(hostname, options, callback) {
      lookup(hostname).then(
        (found) => pinnedTo(found.every(({ address }) => isAllowed(address)) ? found : [])(hostname, options, callback),
        (error) => callback(error as NodeJS.ErrnoException, ""),
      );
    },

    async check(text, field) {
      await orUnknownHost(resolve(urlFrom(text, field), field), field ?? FIELD);
    },
    async post(request) {
      const { timeoutMs, signal } = request;
      const ending = new AbortController();
      const cancel = (): void => ending.abort(new Error("the request was cancelled"));
      const timer = setTimeout(() => ending.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      signal?.addEventListener("abort", cancel, { once: true });
      if (signal?.aborted === true) cancel();
      const answer = await post(request, ending.signal);
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
      if (answer.kind === "answer" || !ending.signal.aborted) return answer;
      return { kind: "fault", error: (ending.signal.reason as Error).message };
    },
  };
}
