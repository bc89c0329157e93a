import type { EventEmitter } from "node:events";
import type { ServerHttp2Stream } from "node:http2";
import { create, type DescFile, type DescMethod, type DescService, type Message, toBinary } from "@bufbuild/protobuf";
import { anyPack, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import {
  logVerbosity,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServerWritableStream,
  type StatusObject,
  type sendUnaryData,
  setLogVerbosity,
  status,
  type UntypedHandleCall,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { ReflectionService } from "@grpc/reflection";
import { service as healthService } from "grpc-health-check";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { nextTurn } from "../async/turns.ts";
import { doInTurns } from "../async/work.ts";
import { ControlPlaneError, codeFromReason, controlPlaneErrorFrom } from "../errors.ts";
import { type Call, MAX_TIMER_MS } from "./call-context.ts";
import { methodName } from "./endpoints.ts";
import { bodyTooLarge, cancelled, deadlineExceeded, detailsOf } from "./errors.ts";
import { addHealth, type Health } from "./health.ts";
import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom } from "./incoming-call.ts";
import { SMALL_REQUEST } from "./large-requests.ts";
import { oncePerServices } from "./once-per-services.ts";
import type { OperatorAccess } from "./operator-access.ts";
import type { Pipeline, StreamedRequest } from "./pipeline.ts";
import { type RequestBounds, requestBoundsOf } from "./request-bounds.ts";
import { contextFrom, type TlsSource } from "./tls.ts";
import { binaryDecoding, decodeBinary } from "./validation.ts";

/** Interval between pings on an idle connection, milliseconds: common proxies drop a connection after 30 s without traffic. */
const DEFAULT_KEEPALIVE_MS = 15_000;
/** Time to wait for the answer to a ping before the connection is closed, milliseconds. */
const KEEPALIVE_TIMEOUT_MS = 10_000;

/**
 * Minimum size of a reply, in bytes, for which the stream waits until the reply is sent. grpc-js accepts 16 replies of any size
 * before it applies back-pressure. So an unread stream holds at most 128 KiB of smaller replies, 64 KiB on their way, and one
 * larger reply.
 */
const LARGE_REPLY_BYTES = 8_192;

/** Options of a gRPC server. */
export interface GrpcServerOptions {
  /** Pipeline whose services are served. */
  readonly pipeline: Pipeline;
  readonly health: Health;
  /** Access to reflection. */
  readonly operators: Pick<OperatorAccess, "assertAllowed">;
  /** Absent: plain text. */
  readonly tls?: TlsSource | undefined;
  /** Maximum bytes of one request message, except of methods with bounds of their own. */
  readonly maxBodyBytes: number;
  /** Milliseconds between keep-alive pings. Default 15,000. */
  readonly keepaliveMs?: number;
}

/** A server of native gRPC, with health and reflection. */
export interface GrpcServer {
  /** Listens on a port; 0 means any free port. Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
  /** Asks clients to open their next calls elsewhere (GOAWAY). Open calls continue; new connections are still accepted. */
  drain(): void;
  /** Accepts no new connections. Open calls continue. */
  leavePort(): void;
  /** Accepts no new calls, waits at most `graceMs` milliseconds for open calls, then cuts them off. */
  close(graceMs: number): Promise<void>;
}

/** Creates a gRPC server on grpc-js. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { pipeline, health, operators, tls, maxBodyBytes, keepaliveMs = DEFAULT_KEEPALIVE_MS } = options;
  const services = pipeline.services.map(({ service }) => service);
  const bounds = new MethodBounds(services, maxBodyBytes);
  const admissions = new Admissions(pipeline);
  // It would write headers of callers to standard error, keys among them.
  setLogVerbosity(logVerbosity.NONE);
  const server = new Server({
    "grpc.max_receive_message_length": maxBodyBytes,
    "grpc.keepalive_time_ms": keepaliveMs,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.enable_channelz": 0,
    interceptors: [
      bounds.interceptor,
      statusReasons(bounds, admissions),
      admissions.interceptor,
      guardReflection(operators),
      unblockStreamWrites,
    ],
  });
  for (const service of services) addService(server, service, pipeline, { admissions, bounds });
  const grpcHealth = addHealth(server, services, health);
  reflectionOf(services).addToServer(server);
  const credentials = tls === undefined ? ServerCredentials.createInsecure() : new TlsCredentials(tls);
  const addresses: string[] = [];
  return {
    async listen(host, port) {
      const bound = await listen(server, host, port, credentials);
      addresses.push(addressFrom(host, bound));
      return bound;
    },
    drain() {
      // No time limit here: `close` applies `graceMs`.
      for (const address of addresses) server.drain(address, MAX_TIMER_MS);
    },
    leavePort() {
      for (const address of addresses) server.unbind(address);
    },
    close(graceMs) {
      grpcHealth.close();
      return close(server, graceMs);
    },
  };
}

function listen(server: Server, host: string, port: number, credentials: ServerCredentials): Promise<number> {
  const address = addressFrom(host, port);
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => (error === null ? resolve(bound) : reject(error)));
  });
}

function addressFrom(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Credentials that follow a source of certificates. A new certificate counts for new connections; open ones stay. */
class TlsCredentials extends ServerCredentials {
  constructor(tls: TlsSource) {
    const needsClientCert = tls.current.clientCa !== undefined;
    super({ requestCert: needsClientCert, rejectUnauthorized: needsClientCert }, contextFrom(tls.current));
    tls.onChange((changed) => this.updateSecureContextOptions(contextFrom(changed)));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function close(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, graceMs);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** End of a call from outside, which may come before anything listens for it. */
interface Departure {
  isOver: boolean;
  listener: () => void;
}

type CallListener = Parameters<ServerInterceptingCallInterface["start"]>[0];

/** Admits calls by their metadata, before anything of their bodies is read, and counts the bodies as they arrive. */
class Admissions {
  readonly #pipeline: Pipeline;
  readonly #methods: ReadonlyMap<string, DescMethod>;
  /** Admitted calls by the objects that grpc-js makes for them: the call, and its metadata. */
  readonly #admitted = new WeakMap<object, Call>();

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline;
    const methods = pipeline.services.flatMap(({ service }) => service.methods);
    this.#methods = new Map(methods.map((method) => [`/${methodName(method)}`, method]));
  }

  /** Holds a call back until it is admitted. Calls of other services pass. */
  readonly interceptor: ServerInterceptor = ({ path }, call) => {
    const method = this.#methods.get(path);
    if (method !== undefined) holdBack(call, (...held) => this.#admit(method, call, ...held));
    return call as ServerInterceptingCall;
  };

  /** Returns the admitted call of an object that grpc-js has made for it. */
  of(made: ServerInterceptingCallInterface | Metadata): Call | undefined {
    return this.#admitted.get(made);
  }

  async #admit(
    method: DescMethod,
    call: ServerInterceptingCallInterface,
    metadata: Metadata,
    listener: CallListener,
    departure: Departure,
  ): Promise<void> {
    const incoming = incomingFrom(call, metadata, departure);
    try {
      const admitted = await this.#pipeline.admit(method, incoming);
      if (departure.isOver) return;
      this.#admitted.set(call, admitted).set(metadata, admitted);
      countBody(call, admitted);
      listener.onReceiveMetadata(metadata);
    } catch (error) {
      call.sendStatus(statusFrom(error, incoming, undefined));
    }
  }
}

/** Has `admit` pass the metadata of a call on, once the call is admitted. `admit` MUST NOT reject. */
function holdBack(
  call: ServerInterceptingCallInterface,
  admit: (metadata: Metadata, listener: CallListener, departure: Departure) => Promise<void>,
): void {
  const { start } = call;
  call.start = (listener) => {
    const departure: Departure = { isOver: false, listener: () => undefined };
    start.call(call, {
      onReceiveMetadata: (metadata) => void admit(metadata, listener, departure),
      onReceiveMessage: (message) => listener.onReceiveMessage(message),
      onReceiveHalfClose: () => listener.onReceiveHalfClose(),
      onCancel() {
        departure.isOver = true;
        departure.listener();
        listener.onCancel();
      },
    });
  };
}

/** Holds calls of reflection, of every version, back until their caller is known to have access. */
function guardReflection(operators: GrpcServerOptions["operators"]): ServerInterceptor {
  return ({ path }, call) => {
    if (path.startsWith("/grpc.reflection."))
      holdBack(call, async (metadata, listener, departure) => {
        const incoming = incomingFrom(call, metadata, departure);
        try {
          await operators.assertAllowed({ ...incoming, headerNames: Object.keys(metadata.getMap()), method: path });
          if (!departure.isOver) listener.onReceiveMetadata(metadata);
        } catch (error) {
          call.sendStatus(statusFrom(error, incoming, undefined));
        }
      });
    return call as ServerInterceptingCall;
  };
}

/** Counts the body of a call as it arrives. grpc-js itself reports whole messages only. */
function countBody(call: ServerInterceptingCallInterface, admitted: Call): void {
  const { stream } = call as unknown as { readonly stream: ServerHttp2Stream };
  stream.on("data", ({ length }: Buffer) => {
    try {
      admitted.hold(length);
    } catch (error) {
      call.sendStatus(statusFrom(admitted.fail(error), admitted.incoming, admitted));
    }
  });
}

/** Admissions and bounds, shared by every method of a server. */
interface WireParts {
  readonly admissions: Admissions;
  readonly bounds: MethodBounds;
}

/** A call of grpc-js with the bounds that it reads its messages by, which grpc-js itself sets alike for every method. */
interface BoundedCall {
  maxReceiveMessageSize: number;
  readonly decoder: { maxReadMessageLength: number };
}

/** Bounds of the messages of each method. */
class MethodBounds {
  readonly #maxBodyBytes: number;
  readonly #byPath: ReadonlyMap<string, RequestBounds>;

  constructor(services: readonly DescService[], maxBodyBytes: number) {
    this.#maxBodyBytes = maxBodyBytes;
    const methods = services.flatMap((service) => service.methods);
    this.#byPath = new Map(methods.map((method) => [`/${methodName(method)}`, this.of(method)]));
  }

  of(method: DescMethod): RequestBounds {
    return requestBoundsOf(method, this.#maxBodyBytes);
  }

  /** Returns the bounds of the method at a path; for methods of other services, those of the service. */
  at(path: string): Pick<RequestBounds, "maxBytes" | "field"> {
    return this.#byPath.get(path) ?? { maxBytes: this.#maxBodyBytes };
  }

  /** Gives each call the bounds of its method before anything is read. */
  readonly interceptor: ServerInterceptor = ({ path }, call) => {
    const { maxBytes } = this.at(path);
    const bounded = call as unknown as BoundedCall;
    bounded.maxReceiveMessageSize = maxBytes;
    bounded.decoder.maxReadMessageLength = maxBytes;
    return call as ServerInterceptingCall;
  };
}

/** Registers every method of a service with grpc-js and connects it to the pipeline. */
function addService(server: Server, service: DescService, pipeline: Pipeline, parts: WireParts): void {
  const definition: Record<string, MethodDefinition<unknown, unknown>> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    definition[method.name] = methodDefinition(method);
    implementation[method.name] = handlerFor(method, pipeline, parts);
  }
  server.addService(definition, implementation);
}

function methodDefinition(method: DescMethod): MethodDefinition<unknown, unknown> {
  // The handlers encode and decode: grpc-js would hide an error thrown here.
  const asIs = (bytes: unknown) => bytes as Buffer;
  return {
    path: `/${methodName(method)}`,
    requestStream: method.methodKind === "bidi_streaming",
    responseStream: method.methodKind !== "unary",
    requestDeserialize: asIs,
    responseSerialize: asIs,
    requestSerialize: asIs,
    responseDeserialize: asIs,
  };
}

type UnaryCall = ServerUnaryCall<Buffer, Buffer>;
type ServerStreamCall = ServerWritableStream<Buffer, Buffer>;
type BidiStreamCall = ServerDuplexStream<Buffer, Buffer>;

function handlerFor(method: DescMethod, pipeline: Pipeline, parts: WireParts): UntypedHandleCall {
  const wire = new GrpcMethod(method, pipeline, parts);
  if (method.methodKind === "unary")
    return (call: UnaryCall, respond: sendUnaryData<Buffer>) => void wire.unary(call, respond);
  if (method.methodKind === "server_streaming") return (call: ServerStreamCall) => void wire.serverStream(call);
  return (call: BidiStreamCall) => void wire.bidiStream(call);
}

/** Handlers of a method: decode requests, call the pipeline, encode replies. */
class GrpcMethod {
  readonly #method: DescMethod;
  readonly #pipeline: Pipeline;
  readonly #admissions: Admissions;
  readonly #bounds: RequestBounds;

  constructor(method: DescMethod, pipeline: Pipeline, { admissions, bounds }: WireParts) {
    this.#method = method;
    this.#pipeline = pipeline;
    this.#admissions = admissions;
    this.#bounds = bounds.of(method);
  }

  async unary(grpc: UnaryCall, respond: sendUnaryData<Buffer>): Promise<void> {
    const call = this.#callOf(grpc);
    try {
      const response = await this.#pipeline.unary(call, this.#readerOf(call, grpc), (message) => {
        const value = this.#encode(message);
        return { value, bytes: value.length };
      });
      // grpc-js also reports the regular end of a call in this way, once its last byte is on its way.
      if (grpc.cancelled) call.delivered();
      else (grpc as EventEmitter).once("cancelled", () => call.delivered());
      grpc.sendMetadata(responseMetadata(call.incoming));
      respond(null, response);
    } catch (error) {
      respond(statusFrom(error, call.incoming, call));
    }
  }

  serverStream(grpc: ServerStreamCall): Promise<void> {
    return this.#stream(grpc, (call) => this.#pipeline.serverStream(call, this.#readerOf(call, grpc)));
  }

  bidiStream(grpc: BidiStreamCall): Promise<void> {
    return this.#stream(grpc, (call) => this.#pipeline.bidiStream(call, this.#requests(call, grpc)));
  }

  async #stream(
    grpc: ServerStreamCall | BidiStreamCall,
    serve: (call: Call) => AsyncIterable<Message> | Promise<AsyncIterable<Message>>,
  ): Promise<void> {
    const call = this.#callOf(grpc);
    try {
      const replies = await serve(call);
      // Headers are sent at once, so that the caller sees an open stream before the first reply.
      grpc.sendMetadata(responseMetadata(call.incoming));
      for await (const reply of replies) {
        const bytes = this.#encode(reply);
        if (bytes.byteLength >= LARGE_REPLY_BYTES) await sent(grpc, bytes, call.signal);
        else if (!grpc.write(bytes)) await drained(grpc, call.signal);
      }
      grpc.end();
    } catch (error) {
      // grpc-js sends the emitted error as the status after the replies that are already written.
      if (!grpc.destroyed) grpc.emit("error", statusFrom(error, call.incoming, call));
    }
  }

  /** Yields the requests of a stream, with back-pressure to the caller. */
  async *#requests(call: Call, grpc: BidiStreamCall): AsyncGenerator<StreamedRequest> {
    try {
      for await (const bytes of grpc.iterator({ destroyOnReturn: false })) {
        const { length } = bytes as Buffer;
        await call.giveWay(length);
        yield { request: this.#decode(bytes as Buffer), bytes: length };
      }
    } catch (error) {
      throw grpc.cancelled ? cancelled() : error;
    }
    // A reset also ends the stream, a moment before grpc-js reports the cancellation. The service function must not mistake that
    // for the regular end of the requests.
    await nextTurn();
    if (grpc.cancelled) throw cancelled();
  }

  #callOf({ metadata }: { readonly metadata: Metadata }): Call {
    const call = this.#admissions.of(metadata);
    if (call === undefined) throw new Error("the call was not admitted");
    return call;
  }

  #readerOf(call: Call, { request }: { readonly request: Buffer }): () => Promise<Message> {
    return async () => {
      call.holdAtLeast(request.length);
      await call.giveWay();
      if (request.length <= SMALL_REQUEST) return this.#decode(request);
      return doInTurns(binaryDecoding(this.#method.input, request, this.#pipeline.maxDepth, this.#bounds));
    };
  }

  #decode(bytes: Buffer): Message {
    return decodeBinary(this.#method.input, bytes, this.#pipeline.maxDepth, this.#bounds);
  }

  #encode(reply: Message): Buffer {
    const bytes = toBinary(this.#method.output, reply);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
}

function incomingFrom(call: ServerInterceptingCallInterface, metadata: Metadata, departure: Departure): IncomingCall {
  const receivedAt = performance.now();
  const header = (name: string) => {
    const value = metadata.get(name)[0];
    return typeof value === "string" ? value : value?.toString("base64");
  };
  const deadline = Number(call.getDeadline());
  // grpc-js reports a passed deadline as a disconnect, and its timer may fire a millisecond early.
  const reason = () => (Date.now() + 1 >= deadline ? deadlineExceeded() : cancelled());
  return {
    wire: "grpc",
    receivedAt,
    requestId: requestIdFrom(header(REQUEST_ID_HEADER)),
    address: addressOfPeer(call.getPeer()),
    header,
    timeoutMs: () => (deadline === Number.POSITIVE_INFINITY ? undefined : deadline - Date.now()),
    onLeave(listener) {
      if (departure.isOver) listener(reason);
      else departure.listener = () => listener(reason);
    },
  };
}

/** Returns the address of a peer such as `127.0.0.1:50000`, `[::1]:50000` or `::1:50000`. */
function addressOfPeer(peer: string): string {
  return peer.slice(0, peer.lastIndexOf(":")).replace(/^\[|\]$/g, "");
}

function responseMetadata({ requestId }: IncomingCall): Metadata {
  const metadata = new Metadata();
  metadata.set(REQUEST_ID_HEADER, requestId);
  return metadata;
}

/** Returns the status of a failure. If a reply cannot be encoded, reports this to the pipeline, which logs it. */
function statusFrom(error: unknown, { requestId }: IncomingCall, call: Call | undefined): StatusObject {
  const known = error instanceof ControlPlaneError ? error : (call?.fail(error) ?? error);
  const status = grpcStatusFrom(known);
  status.metadata.set(REQUEST_ID_HEADER, requestId);
  return status;
}

/** Waits until the caller continues reading or disconnects, or the call ends. */
function drained(grpc: ServerStreamCall | BidiStreamCall, signal: AbortSignal): Promise<void> {
  return settledOr(grpc, signal, (settle) => {
    grpc.once("drain", settle);
    return () => grpc.off("drain", settle);
  });
}

/** Writes a reply and waits until the connection has taken it, the caller disconnects, or the call ends. */
function sent(grpc: ServerStreamCall | BidiStreamCall, bytes: Buffer, signal: AbortSignal): Promise<void> {
  return settledOr(grpc, signal, (settle) => {
    grpc.write(bytes, () => settle());
    return () => undefined;
  });
}

/**
 * Resolves when `listen` settles it, the stream closes or the signal aborts. `listen` returns the function that stops listening.
 */
function settledOr(
  grpc: ServerStreamCall | BidiStreamCall,
  signal: AbortSignal,
  listen: (settle: () => void) => () => void,
): Promise<void> {
  return new Promise((resolve) => {
    if (grpc.destroyed || signal.aborted) {
      resolve();
      return;
    }
    let unlisten = (): unknown => undefined;
    const settle = (): void => {
      unlisten();
      grpc.off("close", settle);
      signal.removeEventListener("abort", settle);
      resolve();
    };
    grpc.once("close", settle);
    signal.addEventListener("abort", settle, { once: true });
    unlisten = listen(settle);
  });
}

/**
 * Adds our reasons to statuses that grpc-js creates outside a handler: for too large requests and passed deadlines. Interceptors
 * do not see these statuses, so this wraps the call's own `sendStatus`.
 */
function statusReasons(bounds: MethodBounds, admissions: Admissions): ServerInterceptor {
  return ({ path }, call) => {
    const send = call.sendStatus;
    call.sendStatus = function sendStatus(this: ServerInterceptingCall, bare) {
      const fault = hasStatusDetails(bare.metadata) ? undefined : errorFromStatus(bare, bounds.at(path));
      if (fault !== undefined) admissions.of(call)?.fail(fault);
      send.call(this, fault === undefined ? bare : grpcStatusFrom(fault));
    };
    return call as ServerInterceptingCall;
  };
}

function errorFromStatus(
  { code, details }: Parameters<ServerInterceptingCall["sendStatus"]>[0],
  bounds: Pick<RequestBounds, "maxBytes" | "field">,
): ControlPlaneError | undefined {
  if (code === status.DEADLINE_EXCEEDED) return deadlineExceeded();
  if (code === status.RESOURCE_EXHAUSTED && /larger than/.test(details ?? "")) return bodyTooLarge(bounds);
  return undefined;
}

type PackageDefinition = ConstructorParameters<typeof ReflectionService>[0];

/** Creates gRPC reflection, v1 and v1alpha, which lists services and their proto files. */
const reflectionOf = oncePerServices((services) => {
  const files = new Map<string, DescFile>();
  for (const { file } of services) collect(file, files);
  const descriptors = [...files.values()].map(({ proto }) => Buffer.from(toBinary(FileDescriptorProtoSchema, proto)));
  // The package reads only the encoded files of a package definition.
  const definition = { ours: { fileDescriptorProtos: [...descriptors, ...healthFiles()] } };
  return new ReflectionService(definition as unknown as PackageDefinition);
});

function collect(file: DescFile, files: Map<string, DescFile>): void {
  if (files.has(file.proto.name)) return;
  files.set(file.proto.name, file);
  for (const dependency of file.dependencies) collect(dependency, files);
}

function healthFiles(): readonly Buffer[] {
  const { requestType } = healthService.Check as unknown as { requestType: { fileDescriptorProtos: Buffer[] } };
  return requestType.fileDescriptorProtos;
}

const STATUS_DETAILS = "grpc-status-details-bin";

/**
 * Maximum encoded bytes of an error in gRPC trailers: many clients refuse headers of more than 8 KiB, and some then close the
 * connection with all its calls.
 */
const MAX_TRAILERS = 6_000;
/** Maximum bytes of the message, which the trailers carry twice: percent-encoded, and in base64 in the details. */
const MAX_MESSAGE = 1_000;
/** Maximum bytes of one value of the metadata. */
const MAX_VALUE = 200;

/** Converts an error for grpc-js, with `google.rpc.Status` in `grpc-status-details-bin`. An unknown fault becomes INTERNAL. */
export function grpcStatusFrom(error: unknown): StatusObject & { metadata: Metadata } {
  const fault = fitTrailers(controlPlaneErrorFrom(error));
  const metadata = new Metadata();
  metadata.set(STATUS_DETAILS, Buffer.from(statusBytes(fault)));
  // grpc-js writes the message through encodeURI, which throws on half a surrogate pair.
  return { code: codeFromReason(fault.reason) as number, details: fault.message.toWellFormed(), metadata };
}

/** True for a gRPC status that already carries our details. */
export function hasStatusDetails(metadata: Metadata | null | undefined): boolean {
  return (metadata?.get(STATUS_DETAILS).length ?? 0) > 0;
}

/**
 * Shortens an error so that it fits into gRPC trailers: with as many violations as fit, and with long texts cut. The message then
 * says how many violations are left out, and the metadata has their number as `omitted_violations`.
 */
export function fitTrailers(error: ControlPlaneError): ControlPlaneError {
  if (trailerBytes(error) <= MAX_TRAILERS) return error;
  const metadata = Object.fromEntries(
    Object.entries(error.metadata).map(([name, value]) => [name, cutTo(MAX_VALUE, value)]),
  );
  const { violations } = error;
  const short = (count: number) => {
    const omitted = violations.length - count;
    const more = omitted === 0 ? "" : `; ${omitted} more violations are left out, which REST and Connect show`;
    const counted = omitted === 0 ? metadata : { ...metadata, omitted_violations: String(omitted) };
    const message = cutTo(MAX_MESSAGE, error.message) + more;
    return new ControlPlaneError(error.reason, message, counted, {
      cause: error.cause,
      violations: violations.slice(0, count),
    });
  };
  let [fitting, tooMany] = [0, violations.length + 1];
  while (tooMany - fitting > 1) {
    const middle = (fitting + tooMany) >> 1;
    if (trailerBytes(short(middle)) <= MAX_TRAILERS) fitting = middle;
    else tooMany = middle;
  }
  return short(fitting);
}

function trailerBytes(error: ControlPlaneError): number {
  return encodedLength(error.message) + Math.ceil(statusBytes(error).length / 3) * 4;
}

function statusBytes(error: ControlPlaneError): Uint8Array {
  const details = detailsOf(error).map(({ desc, value }) => anyPack(desc, create(desc, value)));
  const code = codeFromReason(error.reason);
  return toBinary(StatusSchema, create(StatusSchema, { code, message: error.message.toWellFormed(), details }));
}

const encodedLength = (text: string): number => encodeURIComponent(text.toWellFormed()).length;

/** Cuts a text between characters, so that its percent-encoded form has at most `maxBytes` bytes. */
function cutTo(maxBytes: number, text: string): string {
  // Encoding never makes a character shorter.
  const start = text.slice(0, maxBytes).toWellFormed();
  if (start.length === text.length && encodedLength(start) <= maxBytes) return text;
  let bytes = 0;
  let cut = "";
  for (const character of start) {
    bytes += encodedLength(character);
    if (bytes > maxBytes) break;
    cut += character;
  }
  return `${cut}…`;
}

/** Maximum unsent bytes of a call before back-pressure stops its writer. */
const MAX_UNSENT_BYTES = 65_536;

/**
 * Confirms each write of a stream at once while fewer than `MAX_UNSENT_BYTES` are unsent. grpc-js confirms a write only when the
 * socket has the bytes, so that each reply would cost an event-loop turn and a system call. Replies keep their order, since
 * HTTP/2 sends in the order of writing.
 */
export const unblockStreamWrites: ServerInterceptor = ({ responseStream }, call) => {
  if (!responseStream) return call as ServerInterceptingCall;
  const send = call.sendMessage;
  let unsentBytes = 0;
  let heldBack: (() => void) | undefined;
  call.sendMessage = function sendMessage(this: ServerInterceptingCall, message, written) {
    const bytes = Buffer.isBuffer(message) ? message.byteLength : 0;
    unsentBytes += bytes;
    send.call(this, message, () => {
      unsentBytes -= bytes;
      if (unsentBytes >= MAX_UNSENT_BYTES) return;
      const resume = heldBack;
      heldBack = undefined;
      resume?.();
    });
    if (unsentBytes < MAX_UNSENT_BYTES) written();
    else heldBack = written;
  };
  return call as ServerInterceptingCall;
};
