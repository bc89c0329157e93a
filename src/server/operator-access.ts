import { createHash, timingSafeEqual } from "node:crypto";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type CallerFinder, keyInvalid } from "./admission.ts";
import type { IncomingCall } from "./incoming-call.ts";
import type { WrongKeys } from "./wrong-keys.ts";

/** A request for what operators read. */
export interface OperatorRequest extends Pick<IncomingCall, "header" | "address" | "requestId"> {
  /** Names of all headers. */
  readonly headerNames: Iterable<string>;
  /** The page or method, for the log. */
  readonly method: string;
}

/** Parts and settings of `OperatorAccess`. */
export interface OperatorAccessOptions {
  /** Address that the service listens on. */
  readonly host: string;
  /** Bearer token; undefined if none is configured. */
  readonly token: string | undefined;
  readonly callers: Pick<CallerFinder, "find">;
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1|::ffff:127(\.\d{1,3}){3})$/i;
const BEARER = /^bearer +(\S+) *$/i;

/** Names of headers that proxies add, in lower case and with hyphens. */
const ADDED_BY_PROXIES =
  /^(x-)?(forwarded|original|envoy|azure|appengine|amz|amzn|arr)(-.*)?$|^(via|cdn-loop|cf-.*)$|(^|-)(ip|addr)$/;

/** True for an address that only programs on the same machine reach. */
export const isLoopback = (host: string): boolean => LOOPBACK.test(host);

/** Tests whether a proxy has passed a request on. An empty header counts, and so does an underscore in place of a hyphen. */
export function isForwarded(headerNames: Iterable<string>): boolean {
  for (const name of headerNames) if (ADDED_BY_PROXIES.test(name.toLowerCase().replaceAll("_", "-"))) return true;
  return false;
}

/**
 * Access to what operators read, `/metrics` and gRPC reflection: open to programs on the same machine while the service listens on a
 * loopback address and no proxy has passed the request on; else for the configured token, or an API key that has not ended.
 */
export class OperatorAccess {
  readonly #isLocal: boolean;
  readonly #tokenDigest: Buffer | undefined;
  readonly #callers: OperatorAccessOptions["callers"];
  readonly #wrongKeys: OperatorAccessOptions["wrongKeys"];

  constructor({ host, token, callers, wrongKeys }: OperatorAccessOptions) {
    this.#isLocal = isLoopback(host);
    this.#tokenDigest = token === undefined ? undefined : digestOf(token);
    this.#callers = callers;
    this.#wrongKeys = wrongKeys;
  }

  /** Rejects with KEY_MISSING, KEY_INVALID, TOO_MANY_WRONG_KEYS, and STORE_UNAVAILABLE if a key cannot be looked up. */
  async assertAllowed(request: OperatorRequest): Promise<void> {
    if (this.#isLocal && !isForwarded(request.headerNames)) return;
    if (this.#isToken(request)) return;
    try {
      const { isEnded = false } = await this.#callers.find(request);
      if (isEnded) throw keyInvalid();
    } catch (error) {
      throw this.#countedIfWrong(error, request);
    }
  }

  #isToken({ header }: OperatorRequest): boolean {
    const [, given] = BEARER.exec(header("authorization") ?? "") ?? [];
    // Digests have one length, so that the comparison takes the same time for every text.
    return (
      given !== undefined && this.#tokenDigest !== undefined && timingSafeEqual(digestOf(given), this.#tokenDigest)
    );
  }

  #countedIfWrong(error: unknown, { address, requestId, method }: OperatorRequest): unknown {
    if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.KEY_INVALID) return error;
    return this.#wrongKeys.refusal({ address, requestId, method, reason: error.message }) ?? error;
  }
}

const digestOf = (text: string): Buffer => createHash("sha256").update(text).digest();
