import { type DescMethod, type DescService, type Message, toBinary } from "@bufbuild/protobuf";
import type {
  MethodDefinition,
  ServerDuplexStream,
  ServerUnaryCall,
  ServerWritableStream,
  ServiceDefinition,
  StatusObject,
  sendUnaryData,
  UntypedHandleCall,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { ControlPlaneError } from "../errors.ts";
import { methodName } from "./endpoints.ts";
import { grpcStatusFrom } from "./error-mapping.ts";
import { GrpcCall } from "./grpc-call.ts";
import { createBinaryDecoder } from "./message-decoder.ts";
import type { Pipeline } from "./pipeline.ts";
import { cancelled } from "./refusals.ts";
import { RequestQueue } from "./request-queue.ts";

/** A request as grpc-js hands it over: the message, or what was wrong with its bytes. grpc-js would hide an error thrown while decoding. */
type Decoded = Message | Undecodable;

class Undecodable {
  readonly error: unknown;

  constructor(error: unknown) {
    this.error = error;
  }
}

/** A service in the form that grpc-js takes. */
export interface GrpcService {
  readonly definition: ServiceDefinition;
  readonly implementation: UntypedServiceImplementation;
}

/** Builds a grpc-js service whose methods all go through the pipeline. */
export function grpcServiceFrom(service: DescService, pipeline: Pipeline): GrpcService {
  const definition: Record<string, MethodDefinition<unknown, unknown>> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    definition[method.name] = methodDefinition(method, pipeline.maxDepth);
    implementation[method.name] = handlerFor(method, pipeline);
  }
  return { definition, implementation };
}

function methodDefinition(method: DescMethod, maxDepth: number): MethodDefinition<unknown, unknown> {
  const decode = createBinaryDecoder(method.input, maxDepth);
  const { methodKind } = method;
  return {
    path: `/${methodName(method)}`,
    requestStream: methodKind === "bidi_streaming",
    responseStream: methodKind !== "unary",
    requestDeserialize(bytes) {
      try {
        return decode(bytes);
      } catch (error) {
        return new Undecodable(error);
      }
    },
    // Replies are encoded before they reach grpc-js, so that a reply that cannot be encoded is logged as any other fault.
    responseSerialize: (bytes) => bytes as Buffer,
    requestSerialize: (message) => encoded(method, message as Message),
    responseDeserialize: (bytes) => bytes,
  };
}

function encoded(method: DescMethod, reply: Message): Buffer {
  const bytes = toBinary(method.output, reply);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function handlerFor(method: DescMethod, pipeline: Pipeline): UntypedHandleCall {
  if (method.methodKind === "unary") {
    return (call: ServerUnaryCall<Decoded, Buffer>, respond: sendUnaryData<Buffer>) =>
      answer(method, pipeline, call, respond);
  }
  if (method.methodKind === "server_streaming") {
    return (call: ServerWritableStream<Decoded, Buffer>) => {
      void streamReplies(method, pipeline, call);
    };
  }
  return (call: ServerDuplexStream<Decoded, Buffer>) => {
    void converse(method, pipeline, call);
  };
}

/** What to tell the caller: the pipeline's own errors as they are, a fault that came after it through its log. */
function told(method: DescMethod, pipeline: Pipeline, incoming: GrpcCall, error: unknown): StatusObject {
  const known = error instanceof ControlPlaneError ? error : pipeline.refuse(method, incoming, error);
  return grpcStatusFrom(known, incoming.requestId);
}

function answer(
  method: DescMethod,
  pipeline: Pipeline,
  call: ServerUnaryCall<Decoded, Buffer>,
  respond: sendUnaryData<Buffer>,
): void {
  const incoming = new GrpcCall(call);
  const { request } = call;
  if (request instanceof Undecodable) {
    respond(told(method, pipeline, incoming, pipeline.refuse(method, incoming, request.error)));
    return;
  }
  pipeline
    .unary(method, request, incoming)
    .then((reply) => {
      const bytes = encoded(method, reply);
      call.sendMetadata(incoming.responseMetadata());
      respond(null, bytes);
    })
    .catch((error) => respond(told(method, pipeline, incoming, error)));
}

async function streamReplies(
  method: DescMethod,
  pipeline: Pipeline,
  call: ServerWritableStream<Decoded, Buffer>,
): Promise<void> {
  const incoming = new GrpcCall(call);
  const { request } = call;
  try {
    if (request instanceof Undecodable) throw pipeline.refuse(method, incoming, request.error);
    const replies = await pipeline.serverStream(method, request, incoming);
    await send(method, call, incoming, replies);
  } catch (error) {
    fail(call, told(method, pipeline, incoming, error));
  }
}

async function converse(
  method: DescMethod,
  pipeline: Pipeline,
  call: ServerDuplexStream<Decoded, Buffer>,
): Promise<void> {
  const incoming = new GrpcCall(call);
  try {
    const replies = await pipeline.bidiStream(method, requestsOf(call), incoming);
    await send(method, call, incoming, replies);
  } catch (error) {
    fail(call, told(method, pipeline, incoming, error));
  }
}

function requestsOf(call: ServerDuplexStream<Decoded, Buffer>): RequestQueue {
  const queue = new RequestQueue(call);
  call.on("data", (request: Decoded) => {
    if (request instanceof Undecodable) queue.end(request.error);
    else queue.push(request);
  });
  // A caller that resets its stream ends it too, a moment before grpc-js says that it is cancelled. To the service
  // function that must not look like a caller that has sent all it had.
  call.on("end", () => setImmediate(() => queue.end(call.cancelled ? cancelled() : undefined)));
  return queue;
}

type ReplyStream = ServerWritableStream<Decoded, Buffer> | ServerDuplexStream<Decoded, Buffer>;

async function send(
  method: DescMethod,
  call: ReplyStream,
  incoming: GrpcCall,
  replies: AsyncIterable<Message>,
): Promise<void> {
  // Headers go out at once: a caller sees that the stream is open before there is a first reply.
  call.sendMetadata(incoming.responseMetadata());
  for await (const reply of replies) {
    if (!call.write(encoded(method, reply))) await drained(call);
  }
  call.end();
}

/** Waits until the caller reads on or leaves. */
function drained(call: ReplyStream): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      call.off("drain", settle).off("close", settle);
      resolve();
    };
    if (call.destroyed) resolve();
    else call.on("drain", settle).on("close", settle);
  });
}

function fail(call: ReplyStream, status: StatusObject): void {
  // grpc-js sends what is emitted here as the status, after the replies that are written already.
  if (!call.destroyed) call.emit("error", status);
}
