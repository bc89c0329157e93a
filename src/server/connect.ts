import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  DescMethod,
  DescMethodBiDiStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  Message,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import { createAsyncIterable, type UniversalHandler } from "@connectrpc/connect/protocol";
import {
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { ServiceDefinition } from "../api/service.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import {
  emptyBody,
  type Framing,
  framingFrom,
  type RequestDecoders,
  readRequest,
  suits,
  timeoutOf,
} from "./connect-framing.ts";
import { type HttpArrival, type HttpExchange, HttpIncoming } from "./connect-incoming.ts";
import { sendRpcError } from "./connect-refusal.ts";
import { connectErrorFrom } from "./error-mapping.ts";
import type { IncomingCall } from "./incoming.ts";
import { createBinaryDecoder, createJsonDecoder } from "./message-decoder.ts";
import type { Pipeline } from "./pipeline.ts";
import { bodyTooLarge, cancelled } from "./refusals.ts";

/** How the Connect handler is built. */
export interface ConnectHandlerOptions {
  readonly pipeline: Pipeline;
  /** MUST be services of the pipeline. */
  readonly services: readonly ServiceDefinition[];
  /** Most bytes of one request message, compressed or not. */
  readonly maxBodyBytes: number;
}

/** Serves Connect, gRPC-Web and, over HTTP/2, gRPC under `/package.Service/Method`. */
export interface ConnectHandler {
  /** Answers a request that is a call of these protocols and returns true; else false, with nothing touched. */
  handle(request: IncomingMessage, response: ServerResponse, path: string, arrival: HttpArrival): boolean;
}

interface Route {
  readonly method: DescMethod;
  readonly handler: UniversalHandler;
  readonly decoders: RequestDecoders;
}

/** What the framework's handler gets through its context: the request was read and decoded here, or why it was not. */
interface Given {
  readonly incoming: IncomingCall;
  readonly request?: Message;
  readonly refusal?: ControlPlaneError;
}

const GIVEN = createContextKey<Given | undefined>(undefined, { description: "request" });

/**
 * Creates the handler. Requests are read and decoded here and handed to the framework's handlers in their context,
 * so that a malformed or oversized request is refused with our reasons; the framework frames replies and errors.
 */
export function createConnectHandler({ pipeline, services, maxBodyBytes }: ConnectHandlerOptions): ConnectHandler {
  const routes = createRoutes(pipeline, services, maxBodyBytes);
  const prefixes = services.map(({ service }) => `/${service.typeName}/`);
  return {
    handle(request, response, path, arrival) {
      const route = routes.get(path);
      const framing = framingFrom(request.headers["content-type"]);
      if (route === undefined) {
        const isOurs = prefixes.some((prefix) => path.startsWith(prefix)) || isRpcOnly(framing);
        if (isOurs) sendRpcError(request, response, framing, unknownMethod(path));
        return isOurs;
      }
      const refusal = refusalOf(request, framing, route.method);
      if (framing === undefined || refusal !== undefined) {
        sendRpcError(request, response, undefined, refusal ?? unsupported(request));
        return true;
      }
      void serve({ pipeline, route, framing, arrival, request, response, maxBodyBytes });
      return true;
    },
  };
}

function createRoutes(
  pipeline: Pipeline,
  services: readonly ServiceDefinition[],
  maxBodyBytes: number,
): ReadonlyMap<string, Route> {
  const { maxDepth } = pipeline;
  const router = createConnectRouter({
    acceptCompression: [compressionGzip],
    readMaxBytes: maxBodyBytes,
    binaryOptions: { recursionLimit: 2 * maxDepth + 8 },
    jsonOptions: { ignoreUnknownFields: false, recursionLimit: 2 * maxDepth + 8 },
  });
  for (const { service } of services) {
    for (const method of service.methods) addMethod(router, pipeline, method, maxBodyBytes);
  }
  const route = (handler: UniversalHandler): readonly [string, Route] => {
    const { input } = handler.method;
    const decoders = { binary: createBinaryDecoder(input, maxDepth), json: createJsonDecoder(input, maxDepth) };
    return [handler.requestPath, { method: handler.method, handler, decoders }];
  };
  return new Map(router.handlers.map(route));
}

function addMethod(router: ConnectRouter, pipeline: Pipeline, method: DescMethod, maxBodyBytes: number): void {
  if (method.methodKind === "unary") {
    router.rpc(method as DescMethodUnary, (_empty, context) => unary(pipeline, method, context));
  } else if (method.methodKind === "server_streaming") {
    router.rpc(method as DescMethodServerStreaming, (_empty, context) => serverStream(pipeline, method, context));
  } else {
    router.rpc(method as DescMethodBiDiStreaming, (requests, context) =>
      bidiStream(pipeline, method, decoded(requests, maxBodyBytes), context),
    );
  }
}

function given(context: HandlerContext): Given {
  const found = context.values.get(GIVEN);
  if (found === undefined) throw new Error("the call has no request in its context");
  if (found.refusal !== undefined) throw connectErrorFrom(found.refusal);
  return found;
}

async function unary(pipeline: Pipeline, method: DescMethod, context: HandlerContext): Promise<Message> {
  const { request, incoming } = given(context);
  try {
    return await pipeline.unary(method, request as Message, incoming);
  } catch (error) {
    throw connectErrorFrom(error);
  }
}

async function* serverStream(pipeline: Pipeline, method: DescMethod, context: HandlerContext): AsyncGenerator<Message> {
  const { request, incoming } = given(context);
  try {
    yield* await pipeline.serverStream(method, request as Message, incoming);
  } catch (error) {
    throw connectErrorFrom(error);
  }
}

async function* bidiStream(
  pipeline: Pipeline,
  method: DescMethod,
  requests: AsyncIterable<Message>,
  context: HandlerContext,
): AsyncGenerator<Message> {
  const { incoming } = given(context);
  try {
    yield* await pipeline.bidiStream(method, requests, incoming);
  } catch (error) {
    throw connectErrorFrom(error);
  }
}

/** The requests of a stream, which the framework decodes; what it raises gets our reasons. */
async function* decoded(requests: AsyncIterable<Message>, maxBodyBytes: number): AsyncGenerator<Message> {
  try {
    yield* requests;
  } catch (error) {
    throw requestFault(error, maxBodyBytes);
  }
}

function requestFault(error: unknown, maxBodyBytes: number): unknown {
  if (!(error instanceof ConnectError)) return error;
  if (error.code === Code.ResourceExhausted) return bodyTooLarge(maxBodyBytes);
  if (error.code === Code.Canceled || error.code === Code.Aborted) return cancelled();
  const text = "a request of the stream is no valid message";
  return new ControlPlaneError(ErrorReason.INVALID_FIELD, text, {}, { cause: error });
}

interface Serving extends HttpExchange {
  readonly pipeline: Pipeline;
  readonly route: Route;
  readonly response: ServerResponse;
  readonly maxBodyBytes: number;
}

async function serve(serving: Serving): Promise<void> {
  const { pipeline, route, framing, request, response } = serving;
  const contextValues = createContextValues();
  const universal = universalRequestFromNodeRequest(request, response, undefined, contextValues);
  const given = await takeRequest(serving, universal.signal);
  contextValues.set(GIVEN, given);
  const body = route.method.methodKind === "bidi_streaming" ? {} : { body: createAsyncIterable([emptyBody(framing)]) };
  const header = withoutBodyHeaders(universal.header, "body" in body);
  try {
    const reply = await route.handler({ ...universal, ...body, header });
    await universalResponseToNodeResponse(reply, response);
  } catch (error) {
    // The client is gone in most cases, and then nobody is left to be told.
    if (!universal.signal.aborted) pipeline.refuse(route.method, given.incoming, error);
    response.destroy();
  }
}

/** Reads the request unless the framework has to: only a bidirectional stream has more than one. */
async function takeRequest(serving: Serving, signal: AbortSignal): Promise<Given> {
  const { pipeline, route, framing, request, maxBodyBytes } = serving;
  let incoming: IncomingCall = new HttpIncoming(serving, signal);
  try {
    incoming = new HttpIncoming(serving, signal, timeoutOf(framing, request.headers));
    if (route.method.methodKind === "bidi_streaming") return { incoming };
    return { incoming, request: await readRequest(request, framing, route.decoders, maxBodyBytes) };
  } catch (error) {
    return { incoming, refusal: pipeline.refuse(route.method, incoming, error) };
  }
}

/** The deadline is the pipeline's, and a body that was read here is neither compressed nor of the declared length any more. */
function withoutBodyHeaders(header: Headers, isRead: boolean): Headers {
  const names = ["connect-timeout-ms", "grpc-timeout"];
  if (isRead) names.push("content-length", "content-encoding", "connect-content-encoding", "grpc-encoding");
  for (const name of names) header.delete(name);
  return header;
}

function refusalOf(
  request: IncomingMessage,
  framing: Framing | undefined,
  method: DescMethod,
): ControlPlaneError | undefined {
  if (request.method !== "POST") return notPost(request.method ?? "");
  return framing !== undefined && suits(framing, method) ? undefined : unsupported(request);
}

function notPost(method: string): ControlPlaneError {
  const text = `\`${method}\` is not allowed here; allowed is POST`;
  return new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, text, { method, allow: "POST" });
}

function unsupported(request: IncomingMessage): ControlPlaneError {
  const contentType = request.headers["content-type"] ?? "";
  const text = `content type \`${contentType}\` is none that this method is called with`;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_type: contentType });
}

function unknownMethod(path: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is no method at \`${path}\``, { path });
}

/** Content types that nothing but these protocols uses: an unknown path gets their kind of answer. */
function isRpcOnly(framing: Framing | undefined): boolean {
  return framing !== undefined && (framing.isEnveloped || !framing.isJson);
}
