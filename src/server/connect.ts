import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  DescMethod,
  DescMethodBiDiStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  JsonValue,
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
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import {
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { doInTurns } from "../async/work.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { sizeOfMessage } from "./answer-size.ts";
import type { Call } from "./call-context.ts";
import { type ArrivedMessage, checkedBody } from "./connect-body.ts";
import { bodyTooLarge, cancelled, connectErrorFrom, errorBodyFrom, methodNotAllowed } from "./errors.ts";
import { fitTrailers } from "./grpc/status.ts";
import { headerOf, onceClosed, sendError, sendJson } from "./http-reply.ts";
import {
  type Arrival,
  type IncomingCall,
  onAbort,
  timeoutFromGrpcHeader,
  timeoutFromHeader,
  type Wire,
} from "./incoming-call.ts";
import { SMALL_REQUEST } from "./large-requests.ts";
import { type ReplaceUnknownWords, unknownWordsOf } from "./open-enums.ts";
import type { Pipeline, StreamedRequest } from "./pipeline.ts";
import { type RequestBounds, requestBoundsOf } from "./request-bounds.ts";
import { readRequestJson } from "./request-json.ts";
import { assertFewValues, binaryDecoding, decodeJson, decodeOptions, jsonOptions, undecodable } from "./validation.ts";

/** Options of the Connect handler. */
export interface ConnectHandlerOptions {
  readonly pipeline: Pipeline;
  /** Maximum bytes of one request message, compressed or not, except of methods with bounds of their own. */
  readonly maxBodyBytes: number;
}

/** One HTTP request, carried through the library in its context. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly arrival: Arrival;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** Admitted before the library reads the body. */
  call?: Call;
  /** The library's own signal; its reason is the library's error if it refused the request. */
  librarySignal?: AbortSignal;
  /** True once the library has read the request and passed it to the pipeline. */
  isServed?: boolean;
  /** Size of the message that the library read last, decompressed. */
  messageBytes?: number;
  /** Weight of that message, if it is JSON. */
  messageWeight?: number;
  /** Request of a unary call that was decoded here; the library decodes an empty one in its place. */
  decoded?: Message;
  /** The error that the library answers with. */
  refusal?: ControlPlaneError;
}

const EMPTY_MESSAGE = Buffer.alloc(0);
const EMPTY_OBJECT = Buffer.from("{}");

const EXCHANGE = createContextKey<Exchange | undefined>(undefined, { description: "exchange" });

function exchangeOf(context: HandlerContext): Exchange {
  const exchange = context.values.get(EXCHANGE);
  if (exchange === undefined) throw new Error("the call has no exchange in its context");
  return exchange;
}

/**
 * Serves Connect, gRPC-Web and, over HTTP/2, gRPC under `/package.Service/Method`. The library reads, decodes and answers;
 * its request gate admits a call before the body is read, and what the pipeline throws is mapped to its errors.
 */
export class ConnectHandler {
  readonly #pipeline: Pipeline;
  readonly #maxBodyBytes: number;
  readonly #handlers: ReadonlyMap<string, UniversalHandler>;
  readonly #replacers = new Map<DescMethod, ReplaceUnknownWords | undefined>();
  /** Path prefixes that it serves, one for each service. */
  readonly prefixes: readonly string[];

  constructor({ pipeline, maxBodyBytes }: ConnectHandlerOptions) {
    this.#pipeline = pipeline;
    this.#maxBodyBytes = maxBodyBytes;
    const router = createConnectRouter({
      acceptCompression: [compressionGzip],
      binaryOptions: decodeOptions(pipeline.maxDepth),
      requestGate: (context) => this.#admit(context),
    });
    const services = pipeline.services.map(({ service }) => service);
    for (const method of services.flatMap(({ methods }) => methods)) {
      this.#addMethod(router, method);
      this.#replacers.set(method, unknownWordsOf(method.input));
    }
    this.#handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
    this.prefixes = services.map(({ typeName }) => `/${typeName}`);
  }

  /** Answers a request below one of the prefixes. */
  async handle(request: IncomingMessage, response: ServerResponse, path: string, arrival: Arrival): Promise<void> {
    const handler = this.#handlers.get(path);
    if (handler === undefined) sendUnknownMethod(request, response, path);
    else await this.#serve(handler, request, response, arrival);
  }

  /** Answers a call of these protocols to an unknown path. Returns false for other requests and leaves them untouched. */
  handleUnrouted(request: IncomingMessage, response: ServerResponse, path: string): boolean {
    if (!isRpcOnly(request)) return false;
    sendUnknownMethod(request, response, path);
    return true;
  }

  #addMethod(router: ConnectRouter, method: DescMethod): void {
    const pipeline = this.#pipeline;
    const { maxBytes: readMaxBytes } = this.#boundsOf(method);
    const options = { readMaxBytes, jsonOptions: jsonOptions(pipeline.maxDepth) };
    if (method.methodKind === "unary") {
      const answer = (request: Message, context: HandlerContext) => {
        const call = served(context);
        const { response, decoded = request } = exchangeOf(context);
        onceClosed(response, () => call.delivered());
        // The library encodes the answer.
        const measured = (response: Message) => ({ value: response, bytes: sizeOfMessage(response) });
        return pipeline.unary(call, () => decoded, measured).catch(rethrowTo(context));
      };
      router.rpc(method as DescMethodUnary, answer, options);
    } else if (method.methodKind === "server_streaming") {
      const answer = (request: Message, context: HandlerContext) => {
        const call = served(context);
        return mapped(context, () => pipeline.serverStream(call, () => request));
      };
      router.rpc(method as DescMethodServerStreaming, answer, options);
    } else {
      const answer = (requests: AsyncIterable<Message>, context: HandlerContext) => {
        const call = served(context);
        return mapped(context, () => pipeline.bidiStream(call, this.#decoded(requests, exchangeOf(context), method)));
      };
      router.rpc(method as DescMethodBiDiStreaming, answer, options);
    }
  }

  async #admit(context: HandlerContext): Promise<void> {
    const exchange = exchangeOf(context);
    if (exchange.refusal !== undefined) rethrowTo(context)(exchange.refusal);
    exchange.librarySignal = context.signal;
    const incoming = incomingFrom(exchange, context);
    exchange.call = await this.#pipeline.admit(context.method, incoming).catch(rethrowTo(context));
  }

  async #serve(
    handler: UniversalHandler,
    request: IncomingMessage,
    response: ServerResponse,
    arrival: Arrival,
  ): Promise<void> {
    const contextValues = createContextValues();
    const bare = universalRequestFromNodeRequest(request, response, undefined, contextValues);
    const exchange: Exchange = { request, response, arrival, signal: bare.signal };
    const universal = { ...bare, body: this.#bodyOf(exchange, handler.method, bare.header) };
    contextValues.set(EXCHANGE, exchange);
    // The deadline is the pipeline's.
    for (const name of ["connect-timeout-ms", "grpc-timeout"]) universal.header.delete(name);
    try {
      const reply = await this.#reply(handler, universal, exchange);
      if (reply.status === 405) sendError(response, methodNotAllowed(request.method ?? "", "POST"));
      else if (reply.status === 415) sendError(response, unsupported(request));
      else await universalResponseToNodeResponse(reply, response);
    } catch (error) {
      // Usually the client has disconnected and no reply can reach it; a write may fail before the disconnect is noticed.
      if (!universal.signal.aborted) exchange.call?.fail(hasLeft(error) ? cancelled() : error);
      response.destroy();
    }
  }

  #bodyOf(exchange: Exchange, method: DescMethod, headers: Headers): AsyncIterable<Uint8Array> {
    const { maxDepth } = this.#pipeline;
    const { recursionLimit } = decodeOptions(maxDepth);
    const bounds = this.#boundsOf(method);
    const replaceUnknownWords = this.#replacers.get(method);
    const check = async ({ bytes, isBinary, wasCompressed }: ArrivedMessage): Promise<Uint8Array> => {
      const { call } = exchange;
      if (wasCompressed && method.methodKind !== "bidi_streaming") call?.hold(bytes.length);
      exchange.messageBytes = bytes.length;
      await call?.giveWay(bytes.length);
      if (isBinary) {
        if (method.methodKind !== "unary" || bytes.length <= SMALL_REQUEST) {
          assertFewValues(method.input, bytes, recursionLimit, bounds);
          return bytes;
        }
        exchange.decoded = await doInTurns(binaryDecoding(method.input, bytes, maxDepth, bounds));
        return EMPTY_MESSAGE;
      }
      // As over REST: valid UTF-8, unique keys, bounds, and unknown words of open enums left to the service.
      const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const { value, weight } = await readRequestJson(buffer, maxDepth, bounds);
      exchange.messageWeight = weight;
      await (method.methodKind === "bidi_streaming" ? call?.giveWay(weight) : call?.weigh(weight));
      const isReplaced = replaceUnknownWords?.(value as JsonValue) === true;
      if (method.methodKind === "unary" && weight > SMALL_REQUEST) {
        // The library would read the text a second time, in one turn of the event loop.
        exchange.decoded = decodeJson(method.input, value as JsonValue, maxDepth);
        return EMPTY_OBJECT;
      }
      return isReplaced ? Buffer.from(JSON.stringify(value)) : bytes;
    };
    return checkedBody(chunksOf(exchange), headers, { maxBytes: bounds.maxBytes, check });
  }

  /** Returns the library's reply, with our reason added if the library could not read the request. */
  async #reply(
    handler: UniversalHandler,
    request: UniversalServerRequest,
    exchange: Exchange,
  ): Promise<UniversalServerResponse> {
    const reply = await handler(request).catch((error: unknown) => {
      // The library cannot write its own refusal where that quotes half of a surrogate pair.
      if (error instanceof URIError && !exchange.isServed) return undefined;
      throw error;
    });
    const { call, librarySignal } = exchange;
    if (reply !== undefined && (call === undefined || exchange.isServed)) return reply;
    if (call === undefined) throw new Error("a request was refused before it was admitted");
    // Reads and drops the rest of a refused request, so that the connection stays usable.
    exchange.request.resume();
    exchange.refusal = call.fail(this.#requestFault(librarySignal?.reason, exchange.request, handler.method));
    return handler(request);
  }

  /** Yields the requests of a stream. Adds our reason to the library's reading errors. */
  async *#decoded(
    requests: AsyncIterable<Message>,
    exchange: Exchange,
    method: DescMethod,
  ): AsyncGenerator<StreamedRequest> {
    try {
      for await (const request of requests) {
        const { messageBytes: bytes = 0, messageWeight: weight } = exchange;
        yield { request, bytes, weight };
      }
    } catch (error) {
      throw this.#requestFault(error, exchange.request, method);
    }
  }

  #boundsOf(method: DescMethod): RequestBounds {
    return requestBoundsOf(method, this.#maxBodyBytes);
  }

  #requestFault(error: unknown, request: IncomingMessage, method: DescMethod): unknown {
    if (error instanceof ControlPlaneError) return error;
    // Node's own error: the client disconnected in the middle of the body.
    if (!(error instanceof ConnectError)) return request.complete ? error : cancelled();
    if (error.cause instanceof ControlPlaneError) return error.cause;
    if (error.code === Code.ResourceExhausted) return bodyTooLarge(this.#boundsOf(method));
    if (hasLeft(error)) return cancelled();
    const [, encoding] = /^unknown compression "(.*?)"/.exec(error.rawMessage) ?? [];
    if (encoding !== undefined) return unsupportedEncoding(encoding);
    return undecodable(method.input, this.#pipeline.maxDepth, error.cause ?? error);
  }
}

/** Tests for the library's error after a connection was cut while it was read or written. */
const hasLeft = (error: unknown): boolean =>
  error instanceof ConnectError &&
  (error.code === Code.Canceled || error.code === Code.Aborted || isBrokenPipe(error.cause));

/** Tests for the error of a write after the peer had closed, which the library takes for a fault of the service. */
const isBrokenPipe = (cause: unknown): boolean => (cause as NodeJS.ErrnoException | undefined)?.code === "EPIPE";

/** Yields the body as it arrives. */
async function* chunksOf(exchange: Exchange): AsyncGenerator<Uint8Array> {
  // A refusal in the middle of the body must not destroy the request: the client still reads the response.
  for await (const chunk of exchange.request.iterator({ destroyOnReturn: false })) {
    exchange.call?.hold((chunk as Buffer).length);
    yield chunk as Buffer;
  }
}

function served(context: HandlerContext): Call {
  const exchange = exchangeOf(context);
  exchange.isServed = true;
  if (exchange.call === undefined) throw new Error("the call was not admitted");
  return exchange.call;
}

function rethrowTo({ protocolName }: HandlerContext): (error: unknown) => never {
  const shorten = protocolName === "connect" ? undefined : fitTrailers;
  return (error) => {
    throw connectErrorFrom(error, shorten);
  };
}

async function* mapped(
  context: HandlerContext,
  open: () => AsyncIterable<Message> | Promise<AsyncIterable<Message>>,
): AsyncGenerator<Message> {
  try {
    yield* await open();
  } catch (error) {
    rethrowTo(context)(error);
  }
}

function incomingFrom({ request, arrival, signal }: Exchange, { protocolName }: HandlerContext): IncomingCall {
  const header = (name: string) => headerOf(request, name);
  return {
    wire: protocolName as Wire,
    ...arrival,
    address: request.socket.remoteAddress,
    header,
    timeoutMs: () =>
      protocolName === "connect"
        ? timeoutFromHeader("connect-timeout-ms", header("connect-timeout-ms"))
        : timeoutFromGrpcHeader(header("grpc-timeout")),
    onLeave: (listener) => onAbort(signal, listener),
  };
}

const GRPC_TYPE = /^application\/grpc(-web)?(\+(proto|json))?\b/i;
const CONNECT_TYPE = /^application\/(connect\+)?(proto|json)\b/i;
const REST_TYPE = /^application\/json\b/i;

/** True for content types that only these protocols use. An unknown path is then answered in the protocol's own form. */
function isRpcOnly({ headers }: IncomingMessage): boolean {
  const type = headers["content-type"] ?? "";
  return GRPC_TYPE.test(type) || (CONNECT_TYPE.test(type) && !REST_TYPE.test(type));
}

/** Answers in the caller's protocol: status headers for gRPC and gRPC-Web, JSON for Connect, otherwise the REST error. */
function sendUnknownMethod(request: IncomingMessage, response: ServerResponse, path: string): void {
  const error = new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is no method at \`${path}\``, { path });
  const type = request.headers["content-type"] ?? "";
  request.resume();
  if (GRPC_TYPE.test(type)) sendStatusHeaders(response, type, error);
  else if (CONNECT_TYPE.test(type)) {
    const body = Buffer.from(errorToJsonBytes(connectErrorFrom(error), undefined));
    sendJson(response, errorBodyFrom(error).status, body);
  } else sendError(response, error);
}

function sendStatusHeaders(response: ServerResponse, contentType: string, error: ControlPlaneError): void {
  response.statusCode = 200;
  response.setHeader("content-type", contentType);
  setTrailerStatus(new Headers(), connectErrorFrom(error, fitTrailers)).forEach((value, name) => {
    response.setHeader(name, value);
  });
  // No writeHead before this: over HTTP/2 the headers themselves have to end the stream.
  response.end();
}

function unsupported(request: IncomingMessage): ControlPlaneError {
  const contentType = request.headers["content-type"] ?? "";
  const text = `content type \`${contentType}\` is not supported by this method`;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_type: contentType });
}

function unsupportedEncoding(encoding: string): ControlPlaneError {
  const text = `content encoding \`${encoding}\` is not supported; send \`gzip\` or \`identity\``;
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { content_encoding: encoding });
}
