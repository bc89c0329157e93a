import * as http from "node:http";
import * as https from "node:https";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { llmUnavailable } from "./protocol.ts";

/** A request to the model's service. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path below `/v1` with its query, such as `/chat/completions`. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: none. */
  readonly body: Buffer | undefined;
  /** Ends the request and the answer. */
  readonly signal: AbortSignal;
}

/** The answer of the model's service. */
export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Decompressed. Fails when the answer breaks off, or stays silent for too long. */
  readonly body: Readable;
}

/** The model's service. */
export interface Upstream {
  /** Resolves when the headers of the answer have come. Rejects with LLM_UNAVAILABLE. Follows no redirect. */
  send(request: UpstreamRequest): Promise<UpstreamAnswer>;
  /** Closes connections that are kept. */
  close(): void;
}

/** Time-outs of an upstream, in milliseconds. */
export interface UpstreamTiming {
  /** For a connection to be made. */
  readonly connectMs: number;
  /** For the headers of an answer: models think before they answer. */
  readonly answerMs: number;
  /** Between two parts of an answer. */
  readonly silenceMs: number;
}

/** The time-outs unless options say otherwise. */
export const DEFAULT_UPSTREAM_TIMING: UpstreamTiming = { connectMs: 10_000, answerMs: 600_000, silenceMs: 300_000 };

/** Milliseconds that an unused connection is kept. */
const KEEP_ALIVE_MS = 30_000;

const DECODERS: ReadonlyMap<string, () => NodeJS.ReadWriteStream> = new Map([
  ["gzip", () => createGunzip()],
  ["x-gzip", () => createGunzip()],
  ["deflate", () => createInflate()],
  ["br", () => createBrotliDecompress()],
  ["zstd", () => createZstdDecompress()],
]);

/** The body as it was before its encodings. Throws LLM_UNAVAILABLE for one that is not known. */
function decoded(response: http.IncomingMessage): Readable {
  const encodings = (response.headers["content-encoding"] ?? "").split(",").map((each) => each.trim().toLowerCase());
  let body: Readable = response;
  for (const encoding of encodings.reverse()) {
    if (encoding === "" || encoding === "identity") continue;
    const decoder = DECODERS.get(encoding)?.() as Readable | undefined;
    if (decoder === undefined) {
      response.destroy();
      throw llmUnavailable("the model's service answered in an encoding that is not known");
    }
    // A body that breaks off fails what is read from it.
    body.on("error", (error) => decoder.destroy(error));
    body.on("aborted", () => decoder.destroy(new Error("aborted")));
    body = body.pipe(decoder as unknown as NodeJS.WritableStream & Readable);
  }
  return body;
}

/** Creates the upstream at a base URL that ends in `/v1`. */
export function createUpstream(baseUrl: string, timing: UpstreamTiming = DEFAULT_UPSTREAM_TIMING): Upstream {
  const base = new URL(baseUrl);
  const { request: open, Agent } = base.protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true, timeout: KEEP_ALIVE_MS });

  const sendOnce = ({ method, target, headers, body, signal }: UpstreamRequest) =>
    new Promise<UpstreamAnswer>((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": String(body.length) };
      const path = base.pathname + target;
      const request = open({
        ...{ protocol: base.protocol, hostname: base.hostname, port: base.port, agent, signal, method, path },
        headers: { ...headers, ...length, "accept-encoding": "identity" },
      } as https.RequestOptions);
      const giveUp = (): void => void request.destroy(new Error("no answer in time"));
      let timer = setTimeout(giveUp, timing.connectMs);
      const isConnected = (): void => {
        clearTimeout(timer);
        timer = setTimeout(giveUp, timing.answerMs);
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
        response.setTimeout(timing.silenceMs, () => response.destroy(new Error("the answer fell silent")));
        try {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: decoded(response) });
        } catch (error) {
          reject(error);
        }
      });
      request.end(body);
    });

  /** A kept connection may have been closed by the other side just when it was used again: nothing was read then. */
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
