import {
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import { Code } from "@connectrpc/connect";
import { Health as HealthService } from "../../../gen/grpc/health/v1/health_pb.js";
import { ControlPlaneError, ErrorReason } from "../../errors.ts";
import { Connections } from "../connections.ts";
import { methodName } from "../endpoints.ts";
import type { Health } from "../health.ts";
import type { OperatorAccess } from "../operator-access.ts";
import type { Pipeline } from "../pipeline.ts";
import { createTlsServer, type TlsSource } from "../tls.ts";
import { GrpcExchange, type GrpcMethod } from "./exchange.ts";
import { GrpcHealth } from "./health-service.ts";
import { keepAlive } from "./keep-alive.ts";
import { PipelineMethod } from "./pipeline-method.ts";
import { REFLECTION_SERVICES, reflectionMethods } from "./reflection-service.ts";
import { ENCODINGS } from "./request-messages.ts";
import { trailersFrom } from "./status.ts";

/** Interval between pings on an idle connection, milliseconds: common proxies drop a connection after 30 s without traffic. */
const DEFAULT_KEEPALIVE_MS = 15_000;
/** Time in which a client must finish the TLS handshake, milliseconds. */
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Bounds of a connection. Node and nghttp2 bound its frames that are invalid, resets, settings and pings themselves. */
const CONNECTION_BOUNDS: ServerOptions = {
  settings: {
    // A caller that does not read has at most so many answers of refused calls.
    maxConcurrentStreams: 4_096,
    maxHeaderListSize: 16_384,
  },
  // Megabytes. The pipeline counts answers that are not read; at the default of 10, one of them would refuse all other calls.
  maxSessionMemory: 1_024,
};

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

/** Creates a gRPC server over HTTP/2. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { pipeline, health, operators, tls, maxBodyBytes, keepaliveMs = DEFAULT_KEEPALIVE_MS } = options;
  const services = pipeline.services.map(({ service }) => service);
  const grpcHealth = new GrpcHealth(services, health);
  const methods = new Map<string, GrpcMethod>([
    ...services
      .flatMap((service) => service.methods)
      .map((method) => [`/${methodName(method)}`, new PipelineMethod(method, pipeline, maxBodyBytes)] as const),
    ...grpcHealth.methods,
    ...reflectionMethods([...services, HealthService, ...REFLECTION_SERVICES], operators),
  ]);
  const server =
    tls === undefined
      ? createServer(CONNECTION_BOUNDS)
      : createTlsServer(tls, { ...CONNECTION_BOUNDS, handshakeTimeout: HANDSHAKE_TIMEOUT_MS });
  const connections = new Connections(server, { hasHttp1: false });
  server.on("session", (session: ServerHttp2Session) => {
    const address = session.socket.remoteAddress;
    keepAlive(session, keepaliveMs);
    session.on("stream", (stream, headers) => answer(methods, stream, headers, address));
  });
  return {
    listen: (host, port) => connections.listen(host, port),
    drain: () => connections.drain(),
    leavePort: () => connections.leavePort(),
    close(graceMs) {
      grpcHealth.close();
      return connections.close(graceMs);
    },
  };
}

const GRPC_TYPE = /^application\/grpc(\+proto)?\s*(;|$)/i;

/** Its end tells a stream's error too. */
const ignore = (): void => undefined;

function answer(
  methods: ReadonlyMap<string, GrpcMethod>,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  address: string | undefined,
): void {
  stream.on("error", ignore);
  // A caller may reset a call in the same breath.
  if (stream.closed) return;
  const exchange = new GrpcExchange(stream, headers, address);
  const { ":path": path = "", "content-type": type = "", "grpc-encoding": encoding = "identity" } = headers;
  const method = methods.get(path);
  if (!GRPC_TYPE.test(type)) stream.respond({ ":status": 415 }, { endStream: true });
  else if (method === undefined) exchange.fail(unknownMethod(path));
  else if (!ENCODINGS.includes(String(encoding))) exchange.refuse(unknownEncoding(String(encoding)));
  else void method.serve(exchange);
}

function unknownMethod(path: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.ROUTE_NOT_FOUND, `there is no method at \`${path}\``, { path });
}

/** Refuses messages that cannot be unpacked, with the code on which clients send them in another encoding. */
function unknownEncoding(encoding: string): OutgoingHttpHeaders {
  const text = `message encoding \`${encoding}\` is not supported; send one of ${ENCODINGS.join(", ")}`;
  const error = new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, text, { message_encoding: encoding });
  return trailersFrom(error, Code.Unimplemented);
}
