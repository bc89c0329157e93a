import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { ServiceDefinition } from "../api/service.ts";
import { addHealth } from "./grpc-health.ts";
import { grpcServiceFrom } from "./grpc-methods.ts";
import { addReflection } from "./grpc-reflection.ts";
import { sendWithoutWaiting } from "./grpc-sends.ts";
import { createStatusReasons } from "./grpc-statuses.ts";
import type { Health } from "./health.ts";
import type { Pipeline } from "./pipeline.ts";
import type { Tls } from "./tls.ts";

/** Milliseconds between pings on an idle connection: below the 30 s after which common proxies drop it. */
const DEFAULT_KEEPALIVE_MS = 15_000;
/** Milliseconds that a ping may stay without an answer before the connection is given up. */
const KEEPALIVE_TIMEOUT_MS = 10_000;
/** Longest time that a timer can be set to, in milliseconds: `close` has the grace of its own. */
const MOST_TIMER_MS = 2_147_483_647;

/** How a gRPC server is built. */
export interface GrpcServerOptions {
  readonly pipeline: Pipeline;
  /** MUST be services of the pipeline. */
  readonly services: readonly ServiceDefinition[];
  readonly health: Health;
  /** Absent: plain text. */
  readonly tls?: Tls | undefined;
  /** Most bytes of one request message. */
  readonly maxBodyBytes: number;
  /** Milliseconds between keep-alive pings. Default 15,000. */
  readonly keepaliveMs?: number;
}

/** A server of native gRPC, with health and reflection. */
export interface GrpcServer {
  /** Listens; port 0 takes any free one. Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
  /** Asks every client to open its next calls elsewhere (GOAWAY). Open calls go on, and new connections are still taken. */
  drain(): void;
  /** Takes no new calls and waits for open ones, at most `graceMs` milliseconds; those left are cut off. */
  close(graceMs: number): Promise<void>;
}

/** Creates a gRPC server on grpc-js. */
export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  const { pipeline, health, tls, maxBodyBytes, keepaliveMs = DEFAULT_KEEPALIVE_MS } = options;
  const services = options.services.map(({ service }) => service);
  const server = new Server({
    "grpc.max_receive_message_length": maxBodyBytes,
    "grpc.keepalive_time_ms": keepaliveMs,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
    "grpc.enable_channelz": 0,
    interceptors: [createStatusReasons(maxBodyBytes), sendWithoutWaiting],
  });
  for (const service of services) {
    const { definition, implementation } = grpcServiceFrom(service, pipeline);
    server.addService(definition, implementation);
  }
  const housekeeping = addHealth(server, services, health);
  addReflection(server, services);
  const credentials = tls === undefined ? ServerCredentials.createInsecure() : secure(tls);
  const addresses: string[] = [];
  return {
    async listen(host, port) {
      const bound = await listen(server, host, port, credentials);
      addresses.push(addressFrom(host, bound));
      return bound;
    },
    drain() {
      for (const address of addresses) server.drain(address, MOST_TIMER_MS);
    },
    close(graceMs) {
      housekeeping.close();
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

function secure({ cert, key }: Tls): ServerCredentials {
  return ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(cert), private_key: Buffer.from(key) }]);
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
