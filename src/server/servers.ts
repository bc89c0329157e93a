import type { GrpcServer } from "./grpc/server.ts";
import type { Health } from "./health.ts";
import type { Listener } from "./http.ts";
import type { Pipeline } from "./pipeline.ts";

/** Addresses that a service listens on. */
export interface Addresses {
  /** `http://127.0.0.1:7080`, or `https:` with TLS: REST, Connect and gRPC-Web. */
  readonly http: string;
  /** `127.0.0.1:7090`: gRPC. */
  readonly grpc: string;
}

/** Ports to listen on; 0 takes any free port. */
export interface PortOptions {
  readonly host: string;
  readonly httpPort: number;
  readonly grpcPort: number;
}

/** Servers of both ports, which start and stop together. */
export interface Servers {
  /** Listens on both ports. Rejects if one of them is in use. */
  listen(ports: PortOptions): Promise<Addresses>;
  /** Reports NOT_SERVING and goes on serving, so that balancers send new calls elsewhere before any is refused. */
  retire(): void;
  /**
   * Reports NOT_SERVING, refuses new calls, lets calls in flight finish within `drainMs` milliseconds, and closes every
   * connection. Streams end with SHUTTING_DOWN, so that their readers reconnect elsewhere.
   */
  close(drainMs: number): Promise<void>;
}

/** Minimum time for sending the last responses, milliseconds, even if the calls used up the drain time. */
const FLUSH_MS = 1_000;

/** Joins the servers of one pipeline. */
export function joinServers({
  http,
  grpc,
  health,
  pipeline,
  isTls,
  sharesPorts,
}: {
  readonly http: Listener;
  readonly grpc: GrpcServer;
  readonly health: Health;
  readonly pipeline: Pipeline;
  /** True if the ports speak TLS. */
  readonly isTls: boolean;
  /** True if other processes accept connections on the same ports, so that this one leaves new ones to them while it closes. */
  readonly sharesPorts: boolean;
}): Servers {
  return {
    async listen({ host, httpPort, grpcPort }) {
      const boundGrpc = await grpc.listen(host, grpcPort);
      // HTTP listens last, so that a readiness check on this port finds a service that serves.
      const boundHttp = await http.listen(host, httpPort);
      health.set(true);
      return addressesFrom(isTls ? "https" : "http", host, { http: boundHttp, grpc: boundGrpc });
    },
    retire() {
      health.set(false);
    },
    async close(drainMs) {
      const endsAt = performance.now() + drainMs;
      health.set(false);
      for (const server of [http, grpc]) {
        server.drain();
        if (sharesPorts) server.leavePort();
      }
      await pipeline.drain(drainMs);
      const leftMs = Math.max(FLUSH_MS, endsAt - performance.now());
      await Promise.all([http.close(leftMs), grpc.close(leftMs)]);
    },
  };
}

/** Returns the addresses of a service from its bound ports. */
function addressesFrom(
  scheme: "http" | "https",
  host: string,
  ports: { readonly [Name in keyof Addresses]: number },
): Addresses {
  const name = host.includes(":") ? `[${host}]` : host;
  return { http: `${scheme}://${name}:${ports.http}`, grpc: `${name}:${ports.grpc}` };
}
