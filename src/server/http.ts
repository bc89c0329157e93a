import { createServer, type IncomingMessage, maxHeaderSize, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Registry } from "prom-client";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { versionOf } from "../version.ts";
import { ConnectHandler } from "./connect.ts";
import { Connections } from "./connections.ts";
import { CrossOrigins } from "./cross-origin.ts";
import { errorBodyFrom, methodNotAllowed } from "./errors.ts";
import { headerOf, NEVER_STORED, sendError, sendJson, sendText } from "./http-reply.ts";
import { type Arrival, REQUEST_ID_HEADER, requestIdFrom } from "./incoming-call.ts";
import { mandateSchemaPage } from "./mandate-schema.ts";
import { sendNotFoundPage } from "./not-found-page.ts";
import type { OperatorAccess } from "./operator-access.ts";
import type { Pipeline } from "./pipeline.ts";
import type { NoteRefusal } from "./refusals.ts";
import type { RestTranscoder } from "./rest/transcoder.ts";
import { createTlsServer, type TlsSource } from "./tls.ts";

/** A route of the HTTP port besides the protobuf services. */
export interface HttpRoute {
  /** `/x` takes `/x` and everything below `/x/`; `/` takes everything. The longest prefix is asked first. */
  readonly prefix: string;
  /** Answers a request, or returns false and leaves it untouched for other routes. A rejection becomes the error response. */
  handle(request: IncomingMessage, response: ServerResponse, arrival: Arrival): unknown;
}

/** Content of `/metrics`: one registry of prom-client, or several joined. */
export type MetricsPage = Pick<Registry, "contentType" | "metrics">;

/** Options of the HTTP server. */
export interface HttpServerOptions {
  /** Pipeline whose services are served over Connect and gRPC-Web. */
  readonly pipeline: Pipeline;
  readonly rest: RestTranscoder;
  readonly extra: readonly HttpRoute[];
  /** `/readyz`: resolves when the process can serve; a rejection is sent as the error. */
  readonly ready: () => Promise<void>;
  /** `/metrics`. */
  readonly metrics: MetricsPage;
  /** Access to `/metrics`. */
  readonly operators: Pick<OperatorAccess, "assertAllowed">;
  /** Returns the text of `/openapi.json`. */
  readonly openApi: () => Promise<string>;
  /** Maximum bytes of one request message over Connect and gRPC-Web; REST has its own limit. */
  readonly maxBodyBytes: number;
  readonly log: { error(details: object, message: string): void };
  /** Enables HTTP/2 beside HTTP/1.1, so that Connect also serves gRPC. Absent: HTTP/1.1 in plain text. */
  readonly tls?: TlsSource | undefined;
  /** Logs requests that a route refuses. Default: they are not logged. */
  readonly noteRefusal?: NoteRefusal;
  /** Origins whose pages may call the API with a key. Default: none. */
  readonly corsOrigins?: readonly string[];
}

/**
 * Creates the HTTP port: REST, Connect, gRPC-Web, health, metrics and the given routes. Every response carries the request id;
 * every error, also for an unknown path, has the REST form. Only a browser at an unknown path gets a page.
 */
export function createHttpServer(options: HttpServerOptions): Listener {
  const { log, rest, tls } = options;
  const connect = new ConnectHandler(options);
  const apiPrefixes = [...connect.prefixes, ...rest.prefixes];
  const isApi = (path: string): boolean => apiPrefixes.some((prefix) => isUnder(prefix, path));
  const crossOrigins = new CrossOrigins({ origins: options.corsOrigins ?? [], isApi });
  // The services log their calls themselves.
  const beside = [...statusPages(options), ...options.extra].map((route) => notingRefusals(route, options.noteRefusal));
  const routes = [...beside, ...connectRoutes(connect), ...restRoutes(rest)].sort(
    (a, b) => b.prefix.length - a.prefix.length,
  );
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const arrival: Arrival = { receivedAt: performance.now(), requestId: nameRequest(request, response) };
    const path = pathOf(request);
    if (crossOrigins.handle(request, response, path)) return;
    for (const route of routes) {
      if (isUnder(route.prefix, path) && (await route.handle(request, response, arrival)) !== false) return;
    }
    if (connect.handleUnrouted(request, response, path)) return;
    throw new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is nothing at \`${path}\``, { path });
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    request.url = originForm(request.url);
    // Over HTTP/2 the host has another name.
    request.headers.host = hostOf(request);
    answer(request, response).catch((error) => {
      logFault(log, request, error);
      if (!sendNotFoundPage(request, response, error)) sendError(response, error);
    });
  };
  return createListener({ tls, onRequest });
}

function notingRefusals(route: HttpRoute, noteRefusal: NoteRefusal = () => undefined): HttpRoute {
  return {
    prefix: route.prefix,
    async handle(request, ...given) {
      try {
        return await route.handle(request, ...given);
      } catch (error) {
        noteRefusal(request, route.prefix, error);
        throw error;
      }
    },
  };
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

/** Logs the failure of a route outside the pipeline. Another `ControlPlaneError` than of the database is a regular response. */
function logFault(log: HttpServerOptions["log"], request: IncomingMessage, error: unknown): void {
  if (error instanceof ControlPlaneError && error.reason !== ErrorReason.STORE_UNAVAILABLE) return;
  const cause = error instanceof Error ? error.stack : String(error);
  log.error({ requestId: request.headers[REQUEST_ID_HEADER], path: pathOf(request), cause }, "http request failed");
}

function hostOf({ headers }: IncomingMessage): string | undefined {
  const { ":authority": authority, host } = headers as Record<string, string | undefined>;
  return authority ?? host;
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

/** Sets the request id first, so that log, response and service use the same id. */
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

/** Creates the pages without a key: `/healthz`, `/readyz`, `/openapi.json` and `/schemas/mandate.json`, and `/metrics`. */
function statusPages({ ready, metrics, operators, openApi }: HttpServerOptions): readonly HttpRoute[] {
  const alive = JSON.stringify({ ok: true, version: versionOf() });
  const mandateSchema = mandateSchemaPage();
  return [
    page("/healthz", (response) => sendJson(response, 200, alive)),
    page("/readyz", async (response) => {
      await ready();
      sendJson(response, 200, OK);
    }),
    page("/metrics", async (response, request, { requestId }) => {
      const { headers, socket } = request;
      await operators.assertAllowed({
        header: (name) => headerOf(request, name),
        headerNames: Object.keys(headers),
        address: socket.remoteAddress,
        requestId,
        method: "/metrics",
      });
      sendText(response, 200, metrics.contentType, await metrics.metrics());
    }),
    page("/openapi.json", async (response) => sendJson(response, 200, await openApi())),
    page("/schemas/mandate.json", mandateSchema),
  ];
}

function page(
  path: string,
  show: (response: ServerResponse, request: IncomingMessage, arrival: Arrival) => Promise<void> | void,
): HttpRoute {
  return {
    prefix: path,
    async handle(request: IncomingMessage, response: ServerResponse, arrival: Arrival) {
      if (pathOf(request) !== path) return false;
      request.resume();
      if (request.method === "GET" || request.method === "HEAD") await show(response, request, arrival);
      else sendError(response, methodNotAllowed(request.method ?? "", "GET, HEAD"));
      return true;
    },
  };
}

/** Time in which a client must send its headers, milliseconds. */
const HEADERS_TIMEOUT_MS = 10_000;
/** Time in which a client must send a whole request, milliseconds. Responses are not limited, because streams stay open. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Time after which an idle connection is closed, milliseconds. Common load balancers close it first, after 60 s. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;

/** Options of a listener. */
export interface ListenerOptions {
  readonly tls: TlsSource | undefined;
  /** Time in which a client must send its headers, milliseconds. Default `HEADERS_TIMEOUT_MS`. */
  readonly headersTimeoutMs?: number;
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void;
}

/** A listening socket for HTTP/1.1 and, with TLS, HTTP/2. */
export interface Listener {
  /** Listens on a port; 0 means any free port. Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
  /**
   * Asks clients to send their next request elsewhere: by `connection: close` with each response, or GOAWAY. New connections
   * are still accepted.
   */
  drain(): void;
  /** Accepts no new connections, and closes idle ones. */
  leavePort(): void;
  /** Accepts no new connections, closes idle connections, and cuts off the others after `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}

/** Creates a listener. */
export function createListener({ tls, onRequest, headersTimeoutMs = HEADERS_TIMEOUT_MS }: ListenerOptions): Listener {
  // We answer a missing Host header with our own error.
  const http1 = { requireHostHeader: false, connectionsCheckingInterval: headersTimeoutMs };
  const server =
    tls === undefined
      ? createServer(http1)
      : createTlsServer(tls, { ...http1, allowHTTP1: true, handshakeTimeout: headersTimeoutMs });
  // An HTTP/2 server has these properties for its HTTP/1.1 clients; its type omits them.
  Object.assign(server, {
    headersTimeout: headersTimeoutMs,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  });
  server.on("clientError", answerUnreadable);
  server.on("checkExpectation", (request: unknown, response: unknown) => {
    const { headers } = request as IncomingMessage;
    refuse(response as ServerResponse, expectationFailed(headers.expect));
  });
  const connections = new Connections(server, { hasHttp1: true });
  // Node's HTTP/2 compatibility classes have every HTTP/1.1 member that is used here.
  server.on("request", (request: unknown, response: unknown) => {
    connections.watch(request as IncomingMessage, response as ServerResponse);
    if (isHostMissing(request as IncomingMessage)) refuse(response as ServerResponse, hostMissing());
    else onRequest(request as IncomingMessage, response as ServerResponse);
  });
  return {
    listen: (host, port) => connections.listen(host, port),
    drain: () => connections.drain(),
    leavePort: () => connections.leavePort(),
    close: (graceMs) => connections.close(graceMs),
  };
}

const isHostMissing = ({ httpVersion, headers }: IncomingMessage): boolean =>
  httpVersion === "1.1" && headers.host === undefined;

function refuse(response: ServerResponse, error: ControlPlaneError): void {
  response.setHeader(REQUEST_ID_HEADER, requestIdFrom(headerOf(response.req, REQUEST_ID_HEADER)));
  sendError(response, error);
}

function hostMissing(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.MALFORMED_REQUEST, "the request has no `Host` header");
}

function expectationFailed(expect = ""): ControlPlaneError {
  const text = `the expectation \`${expect}\` cannot be met; the service knows \`100-continue\` only`;
  return new ControlPlaneError(ErrorReason.EXPECTATION_FAILED, text, { expect });
}

/** Returns the error for a request that Node could not read as HTTP. */
function unreadable({ code, message }: NodeJS.ErrnoException): ControlPlaneError {
  if (code === "HPE_HEADER_OVERFLOW") {
    const text = `the headers are larger than ${maxHeaderSize} bytes`;
    return new ControlPlaneError(ErrorReason.HEADERS_TOO_LARGE, text, { max_bytes: String(maxHeaderSize) });
  }
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    const text = `the request did not arrive within ${HEADERS_TIMEOUT_MS / 1000} s for its headers and ${REQUEST_TIMEOUT_MS / 1000} s in all`;
    return new ControlPlaneError(ErrorReason.REQUEST_TIMED_OUT, text);
  }
  const problem = message.replace(/^Parse Error: /, "").toLowerCase();
  return new ControlPlaneError(ErrorReason.MALFORMED_REQUEST, `the request is not valid HTTP: ${problem}`, { problem });
}

/** Answers a request that Node could not read, with an error in our usual form, and closes the connection. */
function answerUnreadable(cause: NodeJS.ErrnoException, socket: AnsweredSocket): void {
  const isAnswered = socket._httpMessage?.headersSent === true;
  if (cause.code === "ECONNRESET" || !socket.writable || isAnswered) {
    socket.destroy(cause);
    return;
  }
  const { status, body } = errorBodyFrom(unreadable(cause));
  const text = JSON.stringify(body);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...Object.entries(NEVER_STORED).map(([name, value]) => `${name}: ${value}`),
    `${REQUEST_ID_HEADER}: ${requestIdFrom(undefined)}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}

/** A socket with the response that Node is writing to it. Node's own handler of such requests reads this property too. */
type AnsweredSocket = Socket & { readonly _httpMessage?: ServerResponse };
