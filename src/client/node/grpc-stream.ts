import { createRequire } from "node:module";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import type { ClientDuplexStream, Client as GrpcClient, StatusObject } from "@grpc/grpc-js";
import {
  EnforcementService,
  type InterceptStreamRequest,
  InterceptStreamRequestSchema,
  type InterceptStreamResponse,
  InterceptStreamResponseSchema,
} from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";

/** One open InterceptStream. */
export type InterceptStream = ClientDuplexStream<InterceptStreamRequest, InterceptStreamResponse>;

/** What a stream tells its owner. */
export interface StreamEvents {
  onReply(reply: InterceptStreamResponse): void;
  /** Called once, when the stream is over for whatever reason. */
  onEnd(status: StatusObject): void;
}

/** Milliseconds between pings on the connection, and for their answers: a path that died silently is found out. */
const KEEPALIVE = { time: 20_000, timeout: 10_000 };
const PATH = `/${EnforcementService.typeName}/${EnforcementService.method.interceptStream.name}`;
const SECURE = /^(https|grpcs):\/\//;

const require = createRequire(import.meta.url);

/** Loaded on first use: whoever has no gRPC address does not pay for it. */
function grpcModule(): typeof import("@grpc/grpc-js") {
  return require("@grpc/grpc-js");
}

/** Creates a gRPC client for `host:port`, or for a URL whose scheme says whether TLS is used (`https`, `grpcs`) or not. */
export function createGrpcClient(url: string): GrpcClient {
  const grpc = grpcModule();
  const credentials = SECURE.test(url) ? grpc.credentials.createSsl() : grpc.credentials.createInsecure();
  const address = url.replace(/^\w+:\/\//, "").replace(/\/+$/, "");
  return new grpc.Client(address, credentials, {
    "grpc.keepalive_time_ms": KEEPALIVE.time,
    "grpc.keepalive_timeout_ms": KEEPALIVE.timeout,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 5_000,
    "grpc.enable_channelz": 0,
  });
}

/** Opens a stream. It takes requests at once, before the connection stands. */
export function openInterceptStream(
  client: GrpcClient,
  apiKey: string,
  { onReply, onEnd }: StreamEvents,
): InterceptStream {
  const metadata = new (grpcModule().Metadata)();
  metadata.set("x-api-key", apiKey);
  const stream = client.makeBidiStreamRequest(PATH, encoded, decoded, metadata);
  stream.on("data", onReply);
  // Every stream ends with its status, which says more; without a listener the error would end the process.
  stream.on("error", () => undefined);
  stream.once("status", onEnd);
  return stream;
}

function encoded(request: InterceptStreamRequest): Buffer {
  const bytes = toBinary(InterceptStreamRequestSchema, request);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function decoded(bytes: Buffer): InterceptStreamResponse {
  return fromBinary(InterceptStreamResponseSchema, bytes);
}
