import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Wire } from "./call-context.ts";

/** The `code` label of a call that ended without an error. */
export const OK = "OK";

/** Buckets in seconds, from half a millisecond to the default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** The end of a call. */
export interface EndedCall {
  /** `package.Service/Method`. */
  readonly method: string;
  readonly wire: Wire;
  /** The name of its gRPC code. */
  readonly code: string;
  /** Seconds from receipt to outcome; undefined for a stream, which lasts as long as its caller wants. */
  readonly seconds: number | undefined;
}

/** Calls in flight by kind. */
export interface InFlight {
  readonly unary: number;
  readonly stream: number;
}

/** Milliseconds between two looks at the event loop. */
const LOOK_MS = 5;

/** Adds a gauge of the event loop, which every request of a process shares. */
export function measureEventLoop(registry: Registry): void {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  new Gauge({
    name: "acp_event_loop_delay_seconds",
    help: "Longest time that the event loop was held up since metrics were read before.",
    registers: [registry],
    collect() {
      this.set(Math.max(0, delay.max / 1e9 - LOOK_MS / 1e3));
      delay.reset();
    },
  });
}

/** The metrics of all calls. */
export class CallMetrics {
  readonly #calls: Counter<"method" | "code" | "wire">;
  readonly #seconds: Histogram<"method" | "wire">;

  /** Calls `inFlight` whenever metrics are read. */
  constructor(registry: Registry, inFlight: () => InFlight) {
    const registers = [registry];
    this.#calls = new Counter({
      name: "acp_calls_total",
      help: "Calls that ended, by method, gRPC code and wire.",
      labelNames: ["method", "code", "wire"],
      registers,
    });
    this.#seconds = new Histogram({
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
        for (const [kind, count] of Object.entries(inFlight())) this.set({ kind }, count);
      },
    });
  }

  /** Counts a call once. */
  record({ method, wire, code, seconds }: EndedCall): void {
    this.#calls.inc({ method, code, wire });
    if (seconds !== undefined) this.#seconds.observe({ method, wire }, seconds);
  }
}
