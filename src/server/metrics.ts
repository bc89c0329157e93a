import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Call } from "./call-context.ts";

/** Buckets in seconds, from half a millisecond to the default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Milliseconds between two samples of the event loop. */
const LOOK_MS = 5;

/** Creates the metrics of a pipeline's calls; `open` holds the calls in flight. */
export function createCallMetrics(registry: Registry, open: ReadonlySet<Call>) {
  const registers = [registry];
  new Gauge({
    name: "acp_calls_in_flight",
    help: "Calls in flight, by kind.",
    labelNames: ["kind"],
    registers,
    collect() {
      const streams = [...open].filter(({ isStream }) => isStream).length;
      this.set({ kind: "unary" }, open.size - streams);
      this.set({ kind: "stream" }, streams);
    },
  });
  return {
    ended: new Counter({
      name: "acp_calls_total",
      help: "Calls that ended, by method, gRPC code and wire.",
      labelNames: ["method", "code", "wire"],
      registers,
    }),
    seconds: new Histogram({
      name: "acp_call_seconds",
      help: "Seconds from receipt to outcome of unary calls, by method and wire.",
      labelNames: ["method", "wire"],
      buckets: BUCKETS_SECONDS,
      registers,
    }),
  };
}

/** Adds a gauge of the delay of the event loop, which all requests of a process share. */
export function measureEventLoop(registry: Registry): void {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  new Gauge({
    name: "acp_event_loop_delay_seconds",
    help: "Longest delay of the event loop since the metrics were last read.",
    registers: [registry],
    collect() {
      this.set(Math.max(0, delay.max / 1e9 - LOOK_MS / 1e3));
      delay.reset();
    },
  });
}
