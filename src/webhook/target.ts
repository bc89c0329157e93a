import type { LookupAddress } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import { isIP } from "node:net";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { checkedText } from "../registry/checked-text.ts";
import { createAddressTest } from "./address-ranges.ts";
import { pinnedPost, type TargetAnswer } from "./pinned-post.ts";

/** Gives every address of a host name. Rejects when there is none. */
export type Lookup = (hostname: string) => Promise<readonly LookupAddress[]>;

/** One request to a URL that a user gave. */
export interface TargetRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Milliseconds for everything: resolving, connecting, the answer. */
  readonly timeoutMs: number;
  /** Ends the request before. */
  readonly signal?: AbortSignal;
}

/** The way out to URLs that users gave. */
export interface Targets {
  /**
   * Rejects with INVALID_FIELD for a URL that is not http or https, cannot be stored, carries credentials or names a host
   * that cannot be resolved, and with TARGET_NOT_ALLOWED for one that leads to an address that is not allowed.
   */
  check(url: string): Promise<void>;
  /**
   * Resolves the host, checks every address, and posts once to those that were checked: a name that changes its address
   * after the check leads nowhere else. Follows no redirect. MUST NOT reject.
   */
  post(request: TargetRequest): Promise<TargetAnswer>;
}

/** What targets are built from. */
export interface TargetsOptions {
  /** CIDR blocks of addresses that are allowed though they are not public. */
  readonly allow: readonly string[];
  /** Default: the system's. */
  readonly lookup?: Lookup | undefined;
}

const FIELD = "url";

function notAllowed(host: string): ControlPlaneError {
  const message = `\`${host}\` leads to an address that is not allowed for webhooks`;
  const violations = [{ field: FIELD, description: "leads to an address that is not allowed", reason: "NOT_ALLOWED" }];
  return new ControlPlaneError(ErrorReason.TARGET_NOT_ALLOWED, message, { host }, { violations });
}

function targetFrom(text: string): URL {
  const url = URL.canParse(checkedText(FIELD, text)) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol)) {
    throw invalidField(FIELD, "must be an `http` or `https` URL");
  }
  if (url.username !== "" || url.password !== "") throw invalidField(FIELD, "must not carry credentials");
  return url;
}

const hostOf = ({ hostname }: URL): string => (hostname.startsWith("[") ? hostname.slice(1, -1) : hostname);

/** Fails when the signal aborts, for what cannot be ended itself. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
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

/** Creates the targets. */
export function createTargets({ allow, lookup = defaultLookup }: TargetsOptions): Targets {
  const isAllowed = createAddressTest(allow);

  const resolve = async (url: URL): Promise<readonly LookupAddress[]> => {
    const host = hostOf(url);
    const family = isIP(host);
    const addresses = family === 0 ? await lookup(host) : [{ address: host, family }];
    // All of them: of a name with a public and a private address, the connection might take the private one.
    if (addresses.length === 0 || !addresses.every(({ address }) => isAllowed(address))) throw notAllowed(host);
    return addresses;
  };

  const post = async ({ url: text, headers, body }: TargetRequest, signal: AbortSignal): Promise<TargetAnswer> => {
    try {
      const url = targetFrom(text);
      const addresses = await unlessAborted(resolve(url), signal);
      return await pinnedPost({ url, addresses, headers, body, signal });
    } catch (error) {
      const isRefusal = error instanceof ControlPlaneError;
      return { kind: "fault", error: isRefusal ? error.message : "the host name cannot be resolved" };
    }
  };

  return {
    async check(text) {
      const url = targetFrom(text);
      try {
        await resolve(url);
      } catch (error) {
        if (error instanceof ControlPlaneError) throw error;
        throw invalidField(FIELD, "names a host that cannot be resolved", error);
      }
    },
    async post(request) {
      const { timeoutMs, signal } = request;
      const ending = new AbortController();
      const end = (): void => ending.abort(new Error("the request was given up"));
      const late = setTimeout(() => ending.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      signal?.addEventListener("abort", end, { once: true });
      if (signal?.aborted === true) end();
      const answer = await post(request, ending.signal);
      clearTimeout(late);
      signal?.removeEventListener("abort", end);
      if (answer.kind === "answer" || !ending.signal.aborted) return answer;
      return { kind: "fault", error: (ending.signal.reason as Error).message };
    },
  };
}

const defaultLookup: Lookup = (hostname) => systemLookup(hostname, { all: true });
