import type { GrpcServer } from "./grpc.ts";
import type { Health } from "./health.ts";
import type { Listener } from "./http-listener.ts";
import type { Pipeline } from "./pipeline.ts";

/** The addresses that a service listens on. */
export interface Addresses {
  /** `http://127.0.0.1:7080`: REST, Connect and gRPC-Web. */
  readonly http: string;
  /** `127.0.0.1:7090`: gRPC. */
  readonly grpc: string;
}

/** The ports to listen on; 0 takes any free one. */
export interface PortOptions {
  readonly host: string;
  readonly httpPort: number;
  readonly grpcPort: number;
}

/** The servers of both ports, which begin and stop together. */
export interface Servers {
  /** Serves on ports of its own. Rejects when one is taken. */
  listen(ports: PortOptions): Promise<Addresses>;
  /**
   * Reports that it is not serving, refuses new calls, lets those in flight finish within `drainMs` milliseconds, and
   * closes every connection. Streams end with SHUTTING_DOWN, so that their readers connect elsewhere.
   */
  close(drainMs: number): Promise<void>;
}

/** Milliseconds that the last answers have to leave, however long the calls took to end. */
const FLUSH_MS = 1_000;

/** Joins the servers of one pipeline. */
export function joinServers({
  http,
  grpc,
  health,
  pipeline,
}: {
  readonly http: Listener;
  readonly grpc: GrpcServer;
  readonly health: Health;
  readonly pipeline: Pipeline;
}): Servers {
  return {
    async listen({ host, httpPort, grpcPort }) {
      const boundGrpc = await grpc.listen(host, grpcPort);
      // Last, so that a readiness check on this port finds a service that serves.
      const boundHttp = await http.listen(host, httpPort);
      health.set(true);
      return addressesFrom(host, { http: boundHttp, grpc: boundGrpc });
    },
    async close(drainMs) {
      const endsAt = performance.now() + drainMs;
      health.set(false);
      for (const server of [http, grpc]) server.drain();
      await pipeline.drain(drainMs);
      const leftMs = Math.max(FLUSH_MS, endsAt - performance.now());
      await Promise.all([http.close(leftMs), grpc.close(leftMs)]);
    },
  };
}

/** The addresses of a service by its bound ports. */
function addressesFrom(host: string, ports: { readonly [Name in keyof Addresses]: number }): Addresses {
  const name = host.includes(":") ? `[${host}]` : host;
  return { http: `http://${name}:${ports.http}`, grpc: `${name}:${ports.grpc}` };
}
