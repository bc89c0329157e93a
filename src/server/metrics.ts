import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Wire } from "./incoming.ts";

/** The `code` label of a call that ended without an error. */
export const OK = "OK";

/** Seconds: half a millisecond for a cached decision up to the longest default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Records the calls of one method. */
export interface MethodMetrics {
  /** A unary call that ended after `seconds` with `code`. */
  unary(wire: Wire, code: string, seconds: number): void;
  /** A stream that ended with `code`. Its length says nothing of the service's speed and is not observed. */
  stream(wire: Wire, code: string): void;
}

/** Calls that run right now, read whenever the metrics are. */
export interface InFlight {
  readonly unary: number;
  readonly streams: number;
}

/** Registers the metrics of all calls and gives out those of a method by its full name, `package.Service/Method`. */
export function createCallMetrics(registry: Registry, inFlight: InFlight): (method: string) => MethodMetrics {
  const registers = [registry];
  const calls = new Counter({
    name: "acp_calls_total",
    help: "Calls that ended, by method, gRPC code and wire.",
    labelNames: ["method", "code", "wire"],
    registers,
  });
  const seconds = new Histogram({
    name: "acp_call_seconds",
    help: "Seconds from receipt to outcome of unary calls, by method and wire.",
    labelNames: ["method", "wire"],
    buckets: BUCKETS_SECONDS,
    registers,
  });
  new Gauge({
    name: "acp_calls_in_flight",
    help: "Calls that run right now, by kind.",
    labelNames: ["kind"],
    registers,
    collect() {
      this.set({ kind: "unary" }, inFlight.unary);
      this.set({ kind: "stream" }, inFlight.streams);
    },
  });
  return (method) => createMethodMetrics(method, calls, seconds);
}

type Calls = Counter<"method" | "code" | "wire">;
type Seconds = Histogram<"method" | "wire">;

// Label children are resolved once for each wire: resolving them costs more than counting (0.45 µs a call with them).
function createMethodMetrics(method: string, calls: Calls, seconds: Seconds): MethodMetrics {
  const byWire = (wire: Wire) => ({
    ok: calls.labels({ method, code: OK, wire }),
    seconds: seconds.labels({ method, wire }),
  });
  const children: Record<Wire, ReturnType<typeof byWire>> = {
    rest: byWire("rest"),
    connect: byWire("connect"),
    "grpc-web": byWire("grpc-web"),
    grpc: byWire("grpc"),
  };
  const count = (wire: Wire, code: string) => {
    if (code === OK) children[wire].ok.inc();
    else calls.inc({ method, code, wire });
  };
  return {
    unary(wire, code, duration) {
      count(wire, code);
      children[wire].seconds.observe(duration);
    },
    stream: count,
  };
}
