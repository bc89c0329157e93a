import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { ServiceDefinition } from "../api/service.ts";
import { ControlPlaneError } from "../errors.ts";
import { type ConnectHandler, createConnectHandler } from "./connect.ts";
import { single } from "./connect-framing.ts";
import { createListener } from "./http-listener.ts";
import { sendError } from "./http-reply.ts";
import { createStatusPages, type MetricsPage } from "./http-status-pages.ts";
import { REQUEST_ID_HEADER, requestIdFrom } from "./incoming.ts";
import type { Pipeline } from "./pipeline.ts";
import type { RestTranscoder } from "./rest/transcoder.ts";
import type { Tls } from "./tls.ts";

/** Something that serves part of the HTTP port beside the protobuf services. */
export interface HttpRoute {
  /** `/x` takes `/x` and everything below `/x/`; `/` takes everything. The longest prefix is asked first. */
  readonly prefix: string;
  /** Answers and returns anything but false; false, with nothing touched, lets others answer. A rejection becomes the error response. */
  handle(request: IncomingMessage, response: ServerResponse): unknown;
}

/** How the HTTP server is built. */
export interface HttpServerOptions {
  readonly pipeline: Pipeline;
  /** Served over Connect and gRPC-Web. MUST be services of the pipeline. */
  readonly services: readonly ServiceDefinition[];
  readonly rest: RestTranscoder;
  /** Asked before REST. */
  readonly extra: readonly HttpRoute[];
  /** `/readyz`: resolves when the process can serve; a rejection is sent as the error. */
  readonly ready: () => Promise<void>;
  /** `/metrics`. */
  readonly metrics: MetricsPage;
  /** The text of `/openapi.json`. */
  readonly openApi: string;
  /** Most bytes of one request message over Connect and gRPC-Web; REST has its own. */
  readonly maxBodyBytes: number;
  readonly log: Logger;
  /** With it the port speaks HTTP/2 beside HTTP/1.1, so that Connect serves gRPC there too. Absent: HTTP/1.1 in plain text. */
  readonly tls?: Tls | undefined;
}

/** The HTTP port: REST, Connect, gRPC-Web, health, metrics and the routes given. */
export interface HttpServer {
  /** Listens; port 0 takes any free one. Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
  /** Asks every client to send its next request elsewhere. Connections that come still are taken. */
  drain(): void;
  /** Takes no new connections, closes idle ones, and cuts off what is open after `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}

/** Creates the HTTP server. Every response carries the request id; every error, an unknown path too, has the REST form. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const front = createFront(options);
  return createListener({
    tls: options.tls,
    onRequest: (request, response) => {
      answer(front, request, response).catch((error) => {
        logFault(options.log, request, error);
        sendError(response, error);
      });
    },
  });
}

/** Logs what a route outside the pipeline failed with, unless it is an answer that the route meant to give. */
function logFault(log: Logger, request: IncomingMessage, error: unknown): void {
  if (error instanceof ControlPlaneError) return;
  const cause = error instanceof Error ? error.stack : String(error);
  log.error({ requestId: request.headers[REQUEST_ID_HEADER], path: pathOf(request), cause }, "http request failed");
}

interface Front {
  readonly rest: RestTranscoder;
  readonly connect: ConnectHandler;
  readonly routes: readonly HttpRoute[];
}

function createFront(options: HttpServerOptions): Front {
  const byLength = (a: HttpRoute, b: HttpRoute) => b.prefix.length - a.prefix.length;
  const routes = [...createStatusPages(options), ...options.extra].sort(byLength);
  return { rest: options.rest, connect: createConnectHandler(options), routes };
}

async function answer(front: Front, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const receivedAt = performance.now();
  const path = pathOf(request);
  const requestId = nameRequest(request, response);
  if (front.connect.handle(request, response, path, { receivedAt, requestId })) return;
  for (const route of front.routes) {
    if (isUnder(route.prefix, path) && (await route.handle(request, response)) !== false) return;
  }
  if (await front.rest.handle(request, response)) return;
  front.rest.notFound(request, response);
}

function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const question = url.indexOf("?");
  return question < 0 ? url : url.slice(0, question);
}

/** Settles the request's id before anyone reads it, so that the log, the response and the service agree on it. */
function nameRequest(request: IncomingMessage, response: ServerResponse): string {
  const requestId = requestIdFrom(single(request.headers[REQUEST_ID_HEADER]));
  request.headers[REQUEST_ID_HEADER] = requestId;
  response.setHeader(REQUEST_ID_HEADER, requestId);
  return requestId;
}

function isUnder(prefix: string, path: string): boolean {
  return (
    path.startsWith(prefix) && (path.length === prefix.length || prefix.endsWith("/") || path[prefix.length] === "/")
  );
}
