import type { IncomingMessage, ServerResponse } from "node:http";
import { cors } from "@connectrpc/connect";
import { headerOf } from "./http-reply.ts";
import { REQUEST_ID_HEADER } from "./incoming-call.ts";

/** Request headers that pages may send: those of Connect and gRPC-Web, and those that the API reads. */
const REQUEST_HEADERS = [
  ...cors.allowedHeaders,
  "X-API-Key",
  "Authorization",
  "X-Request-Id",
  "X-Request-Timeout-Ms",
  "Last-Event-Id",
  "Traceparent",
  "Tracestate",
].join(", ");
/** Response headers that pages may read. */
const RESPONSE_HEADERS = [...cors.exposedHeaders, REQUEST_ID_HEADER, "Retry-After"].join(", ");
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
/** Seconds for which a browser remembers what a preflight request was answered: short, so that a new setting soon counts. */
const MAX_AGE_SECONDS = 600;

/** Options of `CrossOrigins`. */
export interface CrossOriginsOptions {
  /** Origins whose pages may call, as browsers write them. Compared exactly. */
  readonly origins: readonly string[];
  /** Tests whether a path is one of the API, which is called with a key. */
  readonly isApi: (path: string) => boolean;
}

/**
 * CORS: lets pages of listed origins call the API with a key, over REST, Connect and gRPC-Web. Credentials of the browser are never
 * allowed, so the dashboard's cookie opens nothing to another origin: a request that carries cookies gets no CORS header at all.
 */
export class CrossOrigins {
  readonly #origins: ReadonlySet<string>;
  readonly #isApi: (path: string) => boolean;

  constructor({ origins, isApi }: CrossOriginsOptions) {
    this.#origins = new Set(origins);
    this.#isApi = isApi;
  }

  /** Adds the headers to a response. Answers a preflight request of a listed origin, and then returns true. */
  handle(request: IncomingMessage, response: ServerResponse, path: string): boolean {
    if (this.#origins.size === 0 || !this.#isApi(path)) return false;
    // Caches keep a response for one origin from another.
    response.setHeader("vary", "Origin");
    const origin = headerOf(request, "origin");
    if (origin === undefined || !this.#origins.has(origin) || request.headers.cookie !== undefined) return false;
    response.setHeader("access-control-allow-origin", origin);
    response.setHeader("access-control-expose-headers", RESPONSE_HEADERS);
    const isPreflight = request.method === "OPTIONS" && request.headers["access-control-request-method"] !== undefined;
    if (!isPreflight) return false;
    request.resume();
    const allowed = { "access-control-allow-methods": METHODS, "access-control-allow-headers": REQUEST_HEADERS };
    response.writeHead(204, { ...allowed, "access-control-max-age": String(MAX_AGE_SECONDS) }).end();
    return true;
  }
}
