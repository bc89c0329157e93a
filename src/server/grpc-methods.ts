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

/** Reads the bytes of a request message. Throws for bytes that are none. */
type Decode = (bytes: Buffer) => Message;

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
    definition[method.name] = methodDefinition(method);
    implementation[method.name] = handlerFor(method, pipeline);
  }
  return { definition, implementation };
}

function methodDefinition(method: DescMethod): MethodDefinition<unknown, unknown> {
  const { methodKind } = method;
  return {
    path: `/${methodName(method)}`,
    requestStream: methodKind === "bidi_streaming",
    responseStream: methodKind !== "unary",
    // Decoded by the handlers: grpc-js would hide an error thrown here, and holds on to what this gives for longer than
    // the call lasts.
    requestDeserialize: (bytes) => bytes,
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
  const served = { method, pipeline, decode: createBinaryDecoder(method.input, pipeline.maxDepth) };
  if (method.methodKind === "unary") {
    return (call: ServerUnaryCall<Buffer, Buffer>, respond: sendUnaryData<Buffer>) => answer(served, call, respond);
  }
  if (method.methodKind === "server_streaming") {
    return (call: ServerWritableStream<Buffer, Buffer>) => {
      void streamReplies(served, call);
    };
  }
  return (call: ServerDuplexStream<Buffer, Buffer>) => {
    void converse(served, call);
  };
}

/** A method as its calls are served. */
interface Served {
  readonly method: DescMethod;
  readonly pipeline: Pipeline;
  readonly decode: Decode;
}

/** What to tell the caller: the pipeline's own errors as they are, a fault that came after it through its log. */
function told({ method, pipeline }: Served, incoming: GrpcCall, error: unknown): StatusObject {
  const known = error instanceof ControlPlaneError ? error : pipeline.refuse(method, incoming, error);
  return grpcStatusFrom(known, incoming.requestId);
}

/** The request, or the pipeline's refusal of its bytes as an error. */
function requestFrom({ method, pipeline, decode }: Served, incoming: GrpcCall, bytes: Buffer): Message {
  try {
    return decode(bytes);
  } catch (error) {
    throw pipeline.refuse(method, incoming, error);
  }
}

function answer(served: Served, call: ServerUnaryCall<Buffer, Buffer>, respond: sendUnaryData<Buffer>): void {
  const { method, pipeline } = served;
  const incoming = new GrpcCall(call);
  let request: Message;
  try {
    request = requestFrom(served, incoming, call.request);
  } catch (error) {
    respond(told(served, incoming, error));
    return;
  }
  pipeline
    .unary(method, request, incoming)
    .then((reply) => {
      const bytes = encoded(method, reply);
      call.sendMetadata(incoming.responseMetadata());
      respond(null, bytes);
    })
    .catch((error) => respond(told(served, incoming, error)));
}

async function streamReplies(served: Served, call: ServerWritableStream<Buffer, Buffer>): Promise<void> {
  const { method, pipeline } = served;
  const incoming = new GrpcCall(call);
  try {
    const request = requestFrom(served, incoming, call.request);
    await send(method, call, incoming, await pipeline.serverStream(method, request, incoming));
  } catch (error) {
    fail(call, told(served, incoming, error));
  }
}

async function converse(served: Served, call: ServerDuplexStream<Buffer, Buffer>): Promise<void> {
  const { method, pipeline, decode } = served;
  const incoming = new GrpcCall(call);
  try {
    await send(method, call, incoming, await pipeline.bidiStream(method, requestsOf(call, decode), incoming));
  } catch (error) {
    fail(call, told(served, incoming, error));
  }
}

function requestsOf(call: ServerDuplexStream<Buffer, Buffer>, decode: Decode): RequestQueue {
  const queue = new RequestQueue(call);
  call.on("data", (bytes: Buffer) => {
    try {
      queue.push(decode(bytes));
    } catch (error) {
      queue.end(error);
    }
  });
  // A caller that resets its stream ends it too, a moment before grpc-js says that it is cancelled. To the service
  // function that must not look like a caller that has sent all it had.
  call.on("end", () => setImmediate(() => queue.end(call.cancelled ? cancelled() : undefined)));
  return queue;
}

type ReplyStream = ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>;

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
