import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod, DescService, Registry } from "@bufbuild/protobuf";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { assertAcceptsJson, EVENT_STREAM_TYPE, NDJSON_TYPE, streamFormatFor } from "./accept.ts";
import {
  type ClientWatch,
  type RestCall,
  type RestDispatcher,
  type RestErrorBody,
  restCall,
  watchClient,
} from "./call.ts";
import { createJsonDecoder } from "./json-decoder.ts";
import { createJsonEncoder } from "./json-encoder.ts";
import { createRequestReader, type RequestReader } from "./request-message.ts";
import { openStream, sendAllow, sendError, sendJson } from "./respond.ts";
import type { RouteMatch } from "./route-trie.ts";
import { createRouteTable, type Route, type RouteTable } from "./routes.ts";
import { sendStream } from "./stream.ts";
import { createTextBinder } from "./text-binder.ts";

/** What happened to one HTTP request, told once its response is complete or its client is gone. */
export interface RestRequestInfo {
  readonly httpMethod: string;
  /** The path template that matched; `undefined` when none did. */
  readonly template: string | undefined;
  readonly method: DescMethod | undefined;
  readonly status: number;
  readonly durationMs: number;
  /** What the request failed with, before or after its response started. */
  readonly error: unknown;
}

/** One route, for documents and completeness checks. */
export interface RestRouteInfo {
  readonly httpMethod: string;
  readonly template: string;
  readonly method: DescMethod;
}

/** How a transcoder is built. */
export interface RestTranscoderOptions {
  readonly services: readonly DescService[];
  readonly dispatcher: RestDispatcher;
  /** Turns anything thrown, here or by the dispatcher, into a response. MUST NOT throw. */
  readonly errorBody: (error: unknown) => RestErrorBody;
  /** Most bytes that a request body may have. */
  readonly maxBodyBytes: number;
  /** Most brackets that may be open at once in a request body. Default 64. */
  readonly maxDepth?: number;
  /** More templates under which a template is served as well. Default none. */
  readonly aliases?: (template: string) => readonly string[];
  /** Resolves `google.protobuf.Any`. Default: nothing is resolved. */
  readonly registry?: Registry;
  readonly onRequest?: (info: RestRequestInfo) => void;
}

/** Serves RPCs as the REST interface that their `google.api.http` options declare. */
export interface RestTranscoder {
  /** Answers a request whose path is known, under any HTTP method, and returns true; else false, with nothing touched. Never rejects. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Answers with ROUTE_NOT_FOUND. */
  notFound(request: IncomingMessage, response: ServerResponse): void;
  routes(): readonly RestRouteInfo[];
}

/** Brackets that may be open at once in a request body unless the options say otherwise; deep enough for any rule, shallow enough for any stack. */
export const DEFAULT_MAX_DEPTH = 64;

/** Creates a transcoder. Throws an `Error` when two RPCs claim one route or a rule cannot be served. */
export function createRestTranscoder(options: RestTranscoderOptions): RestTranscoder {
  const { registry, maxBodyBytes, maxDepth = DEFAULT_MAX_DEPTH, aliases = () => [] } = options;
  const encoder = createJsonEncoder({ registry });
  const decoder = createJsonDecoder({ registry });
  const binder = createTextBinder(decoder, maxDepth);
  const table = createRouteTable({ services: options.services, aliases, encoder, binder });
  const reader = createRequestReader({ decoder, binder, maxBodyBytes, maxDepth });
  const server: Server = { ...options, table, reader };
  return {
    handle: (request, response) => handle(server, request, response),
    notFound: (request, response) => notFound(server, request, response),
    routes: () => table.routes.map(routeInfo),
  };
}

interface Server extends RestTranscoderOptions {
  readonly table: RouteTable;
  readonly reader: RequestReader;
}

interface Exchange {
  readonly server: Server;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly startedAt: number;
}

interface Target {
  readonly path: string;
  readonly query: string;
}

function routeInfo({ binding, template, method }: Route): RestRouteInfo {
  return { httpMethod: binding.httpMethod, template: template.text, method };
}

async function handle(server: Server, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
  const exchange: Exchange = { server, request, response, startedAt: performance.now() };
  const target = targetFromUrl(request.url ?? "/");
  const match = server.table.match(request.method ?? "GET", target.path);
  if (match === undefined) return answerUnrouted(exchange, target);
  let failure: unknown;
  try {
    failure = await answer(exchange, match, target.query);
  } catch (error) {
    failure = error;
    fail(exchange, error);
  }
  report(exchange, match.value, failure);
  return true;
}

// A request line may carry a whole URL instead of a path.
function targetFromUrl(url: string): Target {
  const start = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("://") + 3);
  const question = url.indexOf("?");
  const end = question < 0 ? url.length : question;
  return { path: start < 0 ? "/" : url.slice(start, end), query: url.slice(end + 1) };
}

function answerUnrouted(exchange: Exchange, { path }: Target): boolean {
  const { server, request, response } = exchange;
  const allowed = server.table.allowed(path);
  if (allowed.length === 0) return false;
  const allow = [...allowed, "OPTIONS"].join(", ");
  const httpMethod = request.method ?? "";
  if (httpMethod === "OPTIONS") {
    sendAllow(response, allow);
    report(exchange, undefined, undefined);
    return true;
  }
  const text = `\`${httpMethod}\` is not allowed here; allowed are ${allow}`;
  const error = new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, text, { method: httpMethod, allow });
  fail(exchange, error, { allow });
  report(exchange, undefined, error);
  return true;
}

function notFound(server: Server, request: IncomingMessage, response: ServerResponse): void {
  const exchange: Exchange = { server, request, response, startedAt: performance.now() };
  const { path } = targetFromUrl(request.url ?? "/");
  const error = new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is nothing at \`${path}\``, { path });
  fail(exchange, error);
  report(exchange, undefined, error);
}

function fail({ server, request, response }: Exchange, error: unknown, headers?: Record<string, string>): void {
  if (response.destroyed || response.headersSent) return;
  const body = server.errorBody(error);
  sendError(request, response, { ...body, headers: { ...body.headers, ...headers } });
}

function report({ server, request, response, startedAt }: Exchange, route: Route | undefined, error: unknown): void {
  server.onRequest?.({
    httpMethod: request.method ?? "",
    template: route?.template.text,
    method: route?.method,
    status: response.statusCode,
    durationMs: performance.now() - startedAt,
    error,
  });
}

/** Gives back the error that a stream ended with, after its response had started. */
async function answer(
  exchange: Exchange,
  { value: route, segments }: RouteMatch<Route>,
  query: string,
): Promise<unknown> {
  const { server, request, response } = exchange;
  const isStream = route.method.methodKind === "server_streaming";
  if (!isStream) assertAcceptsJson(request.headers.accept);
  const client = watchClient(response);
  const message = await server.reader.read(request, route, segments, query);
  const call = restCall(route.method, message, request, client);
  if (isStream) return answerStream(exchange, route, call, client);
  const text = route.textOf(await server.dispatcher.unary(call));
  if (!client.gone) sendJson(response, text);
  return undefined;
}

async function answerStream(
  { server, request, response }: Exchange,
  route: Route,
  call: RestCall,
  client: ClientWatch,
): Promise<unknown> {
  const format = streamFormatFor(request.headers.accept);
  if (request.method === "HEAD") {
    openStream(response, format === "sse" ? EVENT_STREAM_TYPE : NDJSON_TYPE);
    response.end();
    return undefined;
  }
  let failure: unknown;
  const errorBody = (error: unknown) => {
    failure = error;
    return server.errorBody(error).body;
  };
  const messages = await server.dispatcher.serverStream(call);
  const { textOf, cursorOf } = route;
  await sendStream({ response, client, format, messages, textOf, cursorOf, errorBody });
  return failure;
}
