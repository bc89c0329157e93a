import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { type Arrival, REQUEST_ID_HEADER, requestIdFrom } from "./call-context.ts";
import { ConnectHandler } from "./connect.ts";
import { methodNotAllowed } from "./errors.ts";
import { createListener, type Listener, type Tls } from "./http-listener.ts";
import { headerOf, sendError, sendJson, sendText } from "./http-reply.ts";
import type { Pipeline } from "./pipeline.ts";
import { mandateFileSchema } from "./rest/mandate-schema.ts";
import type { RestTranscoder } from "./rest/transcoder.ts";

/** A route of the HTTP port beside the protobuf services. */
export interface HttpRoute {
  /** `/x` takes `/x` and everything below `/x/`; `/` takes everything. The longest prefix is asked first. */
  readonly prefix: string;
  /** Answers; returns false, with the request untouched, to let other routes answer. A rejection becomes the error response. */
  handle(request: IncomingMessage, response: ServerResponse, arrival: Arrival): unknown;
}

/** The content of `/metrics`: a registry of prom-client, or several as one. */
export type MetricsPage = Pick<Registry, "contentType" | "metrics">;

/** Options of the HTTP server. */
export interface HttpServerOptions {
  /** Serves its services over Connect and gRPC-Web. */
  readonly pipeline: Pipeline;
  readonly rest: RestTranscoder;
  readonly extra: readonly HttpRoute[];
  /** `/readyz`: resolves when the process can serve; a rejection is sent as the error. */
  readonly ready: () => Promise<void>;
  /** `/metrics`. */
  readonly metrics: MetricsPage;
  /** The text of `/openapi.json`. */
  readonly openApi: string;
  /** Maximum bytes of one request message over Connect and gRPC-Web; REST has its own limit. */
  readonly maxBodyBytes: number;
  readonly log: Logger;
  /** Enables HTTP/2 beside HTTP/1.1, so that Connect also serves gRPC. Absent: HTTP/1.1 in plain text. */
  readonly tls?: Tls | undefined;
}

/**
 * Creates the HTTP port: REST, Connect, gRPC-Web, health, metrics and the given routes. Every response carries the request id;
 * every error, also for an unknown path, has the REST form.
 */
export function createHttpServer(options: HttpServerOptions): Listener {
  const { log, rest, tls } = options;
  const connect = new ConnectHandler(options);
  const routes = [...statusPages(options), ...options.extra, ...connectRoutes(connect), ...restRoutes(rest)].sort(
    (a, b) => b.prefix.length - a.prefix.length,
  );
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const arrival: Arrival = { receivedAt: performance.now(), requestId: nameRequest(request, response) };
    const path = pathOf(request);
    for (const route of routes) {
      if (isUnder(route.prefix, path) && (await route.handle(request, response, arrival)) !== false) return;
    }
    if (connect.handleUnrouted(request, response, path)) return;
    throw new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is nothing at \`${path}\``, { path });
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    request.url = originForm(request.url);
    answer(request, response).catch((error) => {
      logFault(log, request, error);
      sendError(response, error);
    });
  };
  return createListener({ tls, onRequest });
}

function connectRoutes(connect: ConnectHandler): HttpRoute[] {
  return connect.prefixes.map((prefix) => ({
    prefix,
    handle: (request, response, arrival) => connect.handle(request, response, pathOf(request), arrival),
  }));
}

function restRoutes(rest: RestTranscoder): HttpRoute[] {
  const handle: HttpRoute["handle"] = (request, response, arrival) => rest.handle(request, response, arrival);
  return rest.prefixes.map((prefix) => ({ prefix, handle }));
}

/** Logs the failure of a route outside the pipeline, unless it is a `ControlPlaneError`, which is an answer. */
function logFault(log: Logger, request: IncomingMessage, error: unknown): void {
  if (error instanceof ControlPlaneError) return;
  const cause = error instanceof Error ? error.stack : String(error);
  log.error({ requestId: request.headers[REQUEST_ID_HEADER], path: pathOf(request), cause }, "http request failed");
}

const SCHEME_AND_HOST = /^[a-z][a-z0-9+.-]*:\/\/[^/?]*/i;

/** Returns the path and query of a request target, which may be a whole URL (RFC 9112 §3.2.2). */
function originForm(target = "/"): string {
  if (target.startsWith("/")) return target;
  const path = target.replace(SCHEME_AND_HOST, "");
  return path.startsWith("/") ? path : `/${path}`;
}

function pathOf({ url = "/" }: IncomingMessage): string {
  const question = url.indexOf("?");
  return question < 0 ? url : url.slice(0, question);
}

/** Settles the request id first, so that log, response and service use the same. */
function nameRequest(request: IncomingMessage, response: ServerResponse): string {
  const requestId = requestIdFrom(headerOf(request, REQUEST_ID_HEADER));
  request.headers[REQUEST_ID_HEADER] = requestId;
  response.setHeader(REQUEST_ID_HEADER, requestId);
  return requestId;
}

function isUnder(prefix: string, path: string): boolean {
  return (
    path.startsWith(prefix) && (path.length === prefix.length || prefix.endsWith("/") || path[prefix.length] === "/")
  );
}

const OK = JSON.stringify({ ok: true });

/** Creates the pages without a key: `/healthz`, `/readyz`, `/metrics`, `/openapi.json` and `/schemas/mandate.json`. */
function statusPages({ ready, metrics, openApi }: HttpServerOptions): readonly HttpRoute[] {
  const mandateSchema = JSON.stringify(mandateFileSchema());
  return [
    page("/healthz", (response) => sendJson(response, 200, OK)),
    page("/readyz", async (response) => {
      await ready();
      sendJson(response, 200, OK);
    }),
    page("/metrics", async (response) => sendText(response, 200, metrics.contentType, await metrics.metrics())),
    page("/openapi.json", (response) => sendJson(response, 200, openApi)),
    page("/schemas/mandate.json", (response) => sendJson(response, 200, mandateSchema)),
  ];
}

function page(path: string, show: (response: ServerResponse) => Promise<void> | void): HttpRoute {
  return {
    prefix: path,
    async handle(request: IncomingMessage, response: ServerResponse) {
      if (pathOf(request) !== path) return false;
      request.resume();
      if (request.method === "GET" || request.method === "HEAD") await show(response);
      else sendError(response, methodNotAllowed(request.method ?? "", "GET, HEAD"));
      return true;
    },
  };
}
