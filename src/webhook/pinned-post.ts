import type { LookupAddress } from "node:dns";
import * as http from "node:http";
import * as https from "node:https";
import type { LookupFunction } from "node:net";
import { finished } from "node:stream/promises";

/** What a receiver answered, or why there was no answer: one line without an address in it. */
export type TargetAnswer =
  | { readonly kind: "answer"; readonly status: number; readonly retryAfter: string | undefined }
  | { readonly kind: "fault"; readonly error: string };

/** A request to a receiver. */
export interface PinnedRequest {
  readonly url: URL;
  /** The addresses that were checked; no other is connected to. */
  readonly addresses: readonly LookupAddress[];
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Ends the request. */
  readonly signal: AbortSignal;
}

/** Bytes of an answer that are read; what it says beyond its status is not looked at. */
const MAX_ANSWER_BYTES = 65_536;
/** Milliseconds for one of several addresses to connect before the next is tried as well. */
const NEXT_ADDRESS_MS = 1_000;

const FAULTS: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", "the connection was refused"],
  ["ECONNRESET", "the connection was closed before an answer"],
  ["EPIPE", "the connection was closed before an answer"],
  ["EHOSTUNREACH", "the host cannot be reached"],
  ["ENETUNREACH", "the host cannot be reached"],
  ["ETIMEDOUT", "the connection timed out"],
]);

// Messages of the system name addresses, which are nothing for whoever only knows the name.
function faultText(error: unknown): string {
  const code = String((error as { code?: unknown }).code ?? "");
  return FAULTS.get(code) ?? (code === "" ? "the request failed" : `the request failed: ${code}`);
}

const pinnedTo =
  (addresses: readonly LookupAddress[]): LookupFunction =>
  (_hostname, { all }, callback) => {
    const [first] = addresses;
    if (first === undefined) callback(Object.assign(new Error("no address"), { code: "ENOTFOUND" }), "");
    else if (all === true) callback(null, [...addresses]);
    else callback(null, first.address, first.family);
  };

async function discard(response: http.IncomingMessage): Promise<void> {
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) response.destroy();
  });
  // An answer that breaks off after its status is an answer still.
  await finished(response).catch(() => undefined);
}

/**
 * Posts once, to one of the given addresses only, under the host name of the URL (`Host`, SNI, certificate). Redirects are
 * answers like any other. MUST NOT reject.
 */
export function pinnedPost({ url, addresses, headers, body, signal }: PinnedRequest): Promise<TargetAnswer> {
  return new Promise((resolve) => {
    const { request: open } = url.protocol === "https:" ? https : http;
    const request = open(url, {
      method: "POST",
      headers: { ...headers, "Content-Length": Buffer.byteLength(body) },
      // A kept connection would lead to an address that was checked for an earlier request.
      agent: false,
      lookup: pinnedTo(addresses),
      autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
      signal,
    } as https.RequestOptions);
    let isAnswered = false;
    request.on("error", (error) => {
      if (!isAnswered) resolve({ kind: "fault", error: faultText(error) });
    });
    request.on("close", () => {
      // Without this an answer that is none, such as a change of protocols, would leave the caller waiting.
      if (!isAnswered) resolve({ kind: "fault", error: "the connection was closed before an answer" });
    });
    request.on("response", (response) => {
      isAnswered = true;
      const { statusCode: status = 0, headers: answered } = response;
      void discard(response).then(() => {
        request.destroy();
        resolve({ kind: "answer", status, retryAfter: answered["retry-after"] });
      });
    });
    request.end(body);
  });
}
