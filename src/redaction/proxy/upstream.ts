import * as http from "node:http";
import * as https from "node:https";
import type { LookupFunction } from "node:net";
import { pipeline, type Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { llmUnavailable } from "./protocol.ts";

/** A request to the model's service. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path below `/v1` with its query, such as `/chat/completions`. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** Aborts request and response. */
  readonly signal: AbortSignal;
}

/** A response of the model's service. */
export interface UpstreamResponse {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Decompressed body. Fails if the response breaks off or pauses too long. */
  readonly body: Readable;
}

/** Client of the model's service. */
export interface Upstream {
  /** Resolves when the headers of the response have arrived. Rejects with LLM_UNAVAILABLE. Does not follow redirects. */
  send(request: UpstreamRequest): Promise<UpstreamResponse>;
  /** Closes idle connections. */
  close(): void;
}

/** Timeouts of an upstream, in milliseconds. */
export interface UpstreamTiming {
  /** For connecting. */
  readonly connectMs: number;
  /** For the headers of a response: models think before they answer. */
  readonly headersMs: number;
  /** Between two chunks of a response. */
  readonly idleMs: number;
}

/** Default timeouts. */
export const DEFAULT_UPSTREAM_TIMING: UpstreamTiming = { connectMs: 10_000, headersMs: 600_000, idleMs: 300_000 };

/** Milliseconds for which an idle connection is kept. */
const KEEP_ALIVE_MS = 30_000;

const DECODERS: ReadonlyMap<string, () => NodeJS.ReadWriteStream> = new Map([
  ["gzip", () => createGunzip()],
  ["x-gzip", () => createGunzip()],
  ["deflate", () => createInflate()],
  ["br", () => createBrotliDecompress()],
  ["zstd", () => createZstdDecompress()],
]);

/** Decodes a body. Throws LLM_UNAVAILABLE for an unknown encoding. */
function decodeBody(response: http.IncomingMessage): Readable {
  const encodings = (response.headers["content-encoding"] ?? "").split(",").map((each) => each.trim().toLowerCase());
  const encoded = encodings.reverse().filter((each) => each !== "" && each !== "identity");
  const decoders = encoded.flatMap((encoding) => DECODERS.get(encoding)?.() ?? []);
  if (decoders.length < encoded.length) {
    response.destroy();
    throw llmUnavailable("the model's service answered in an unknown encoding");
  }
  if (decoders.length === 0) return response;
  // Failures reach the reader through the last stream.
  return pipeline([response, ...decoders], () => undefined) as unknown as Readable;
}

/** Creates an upstream at a base URL that ends in `/v1`. `lookup` resolves its name; default: the system's. */
export function createUpstream(
  baseUrl: string,
  timing: UpstreamTiming = DEFAULT_UPSTREAM_TIMING,
  lookup?: LookupFunction,
): Upstream {
  const base = new URL(baseUrl);
  const { request: open, Agent } = base.protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true, timeout: KEEP_ALIVE_MS, ...(lookup === undefined ? {} : { lookup }) });

  const sendOnce = ({ method, target, headers, body, signal }: UpstreamRequest) =>
    new Promise<UpstreamResponse>((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": String(body.length) };
      const path = base.pathname + target;
      const request = open({
        protocol: base.protocol,
        hostname: base.hostname,
        port: base.port,
        agent,
        signal,
        method,
        path,
        headers: { ...headers, ...length, "accept-encoding": "identity" },
      } as https.RequestOptions);
      const giveUp = (): void => void request.destroy(new Error("no answer in time"));
      let timer = setTimeout(giveUp, timing.connectMs);
      const isConnected = (): void => {
        clearTimeout(timer);
        timer = setTimeout(giveUp, timing.headersMs);
      };
      request.on("socket", (socket) => {
        if (socket.connecting) socket.once("connect", isConnected);
        else isConnected();
      });
      request.on("error", (error) => {
        clearTimeout(timer);
        reject(Object.assign(error, { isReused: request.reusedSocket }));
      });
      request.on("response", (response) => {
        clearTimeout(timer);
        response.setTimeout(timing.idleMs, () => response.destroy(new Error("the answer paused too long")));
        try {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: decodeBody(response) });
        } catch (error) {
          reject(error);
        }
      });
      request.end(body);
    });

  /** True if the other side closed a reused connection before it read the request. */
  const isStale = (error: unknown): boolean => {
    const { code, isReused } = error as { code?: string; isReused?: boolean };
    return isReused === true && (code === "ECONNRESET" || code === "EPIPE");
  };

  return {
    async send(request) {
      try {
        return await sendOnce(request).catch((error) => {
          if (isStale(error) && !request.signal.aborted) return sendOnce(request);
          throw error;
        });
      } catch (error) {
        throw llmUnavailable("the model's service did not answer", error);
      }
    },
    close: () => agent.destroy(),
  };
}
