import type { DescService } from "@bufbuild/protobuf";
import type { Server, ServerWritableStream, UntypedServiceImplementation } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";

/** Serving state for the health checks on both ports: true while this process accepts calls. */
export class Health {
  readonly #listeners = new Set<(serving: boolean) => void>();
  #serving = false;

  /** False at first. */
  get serving(): boolean {
    return this.#serving;
  }

  /** Changes the state. Setting the same state again calls no listener. */
  set(serving: boolean): void {
    if (serving === this.#serving) return;
    this.#serving = serving;
    for (const listener of this.#listeners) listener(serving);
  }

  /** Calls back on every later change. Returns a function that ends it. */
  watch(listener: (serving: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

type WatchCall = ServerWritableStream<unknown, unknown>;

/** The health service of one gRPC server. */
export interface GrpcHealth {
  /** Ends open `Watch` streams, which would otherwise keep a server from stopping gracefully. */
  close(): void;
}

/** Adds `grpc.health.v1.Health` for every service and, under the empty name, for the server as a whole. */
export function addHealth(server: Server, services: readonly DescService[], health: Health): GrpcHealth {
  const names = ["", ...services.map(({ typeName }) => typeName)];
  const implementation = new HealthImplementation();
  const publish = (serving: boolean) => {
    for (const name of names) implementation.setStatus(name, serving ? "SERVING" : "NOT_SERVING");
  };
  publish(health.serving);
  const unwatch = health.watch(publish);
  const watching = new Set<WatchCall>();
  const tracking: Pick<Server, "addService"> = {
    addService: (definition, methods) => server.addService(definition, withTracking(methods, watching)),
  };
  implementation.addToServer(tracking as Server);
  return {
    close() {
      unwatch();
      for (const call of watching) call.end();
    },
  };
}

function withTracking(methods: UntypedServiceImplementation, watching: Set<WatchCall>): UntypedServiceImplementation {
  const watch = methods.watch as (call: WatchCall) => void;
  return {
    ...methods,
    watch(call: WatchCall) {
      watching.add(call);
      call.on("cancelled", () => watching.delete(call));
      watch(call);
    },
  };
}
