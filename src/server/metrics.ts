import { monitorEventLoopDelay } from "node:perf_hooks";
import type { DescMethod } from "@bufbuild/protobuf";
import { Gauge, type Registry } from "prom-client";
import { type CounterSeries, type HistogramSeries, TallyCounter, TallyHistogram } from "../metrics/tally.ts";
import type { Call } from "./call-context.ts";
import type { Wire } from "./incoming-call.ts";

/** Buckets in seconds, from half a millisecond to the default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Milliseconds between two samples of the event loop. */
const LOOK_MS = 5;

/** Series of the calls of one method over one wire. */
interface CallSeries {
  readonly seconds: HistogramSeries | undefined;
  readonly byCode: Map<string, CounterSeries>;
}

/** Options of `CallMetrics`. */
export interface CallMetricsOptions {
  readonly registry: Registry;
  /** Calls in flight. */
  readonly open: ReadonlySet<Call>;
  /** Methods that are served. */
  readonly methods: Iterable<DescMethod>;
  /** Open streams beside those of the methods, by kind. */
  readonly otherStreams: Readonly<Record<string, () => number>>;
}

/** Counts the calls of a pipeline. */
export class CallMetrics {
  readonly #ended: TallyCounter<"method" | "code" | "wire">;
  readonly #seconds: TallyHistogram<"method" | "wire">;
  readonly #series = new Map<string, Map<Wire, CallSeries>>();

  constructor({ registry, open, methods, otherStreams }: CallMetricsOptions) {
    this.#ended = new TallyCounter({
      name: "acp_calls_total",
      help: "Calls that ended, by method, gRPC code and wire.",
      labelNames: ["method", "code", "wire"],
      registry,
    });
    this.#seconds = new TallyHistogram({
      name: "acp_call_seconds",
      help: "Seconds from receipt to outcome of unary calls, by method and wire.",
      labelNames: ["method", "wire"],
      buckets: BUCKETS_SECONDS,
      registry,
    });
    measureOpen(registry, open);
    measureStreams(registry, { open, methods, otherStreams });
  }

  /** Counts a call that has ended, with the name of its gRPC code. */
  record({ endpoint: { name: method }, incoming: { wire }, isStream, receivedAt }: Call, code: string): void {
    const { seconds, byCode } = this.#series.get(method)?.get(wire) ?? this.#add(method, wire, isStream);
    // The duration of a stream depends only on its caller.
    seconds?.observe((performance.now() - receivedAt) / 1_000);
    let counter = byCode.get(code);
    if (counter === undefined) {
      counter = this.#ended.series({ method, code, wire });
      byCode.set(code, counter);
    }
    counter.value += 1;
  }

  #add(method: string, wire: Wire, isStream: boolean): CallSeries {
    const ofMethod = this.#series.get(method) ?? new Map<Wire, CallSeries>();
    this.#series.set(method, ofMethod);
    const seconds = isStream ? undefined : this.#seconds.series({ method, wire });
    const series = { seconds, byCode: new Map<string, CounterSeries>() };
    ofMethod.set(wire, series);
    return series;
  }
}

function measureOpen(registry: Registry, open: ReadonlySet<Call>): void {
  new Gauge({
    name: "acp_calls_in_flight",
    help: "Calls in flight, by kind.",
    labelNames: ["kind"],
    registers: [registry],
    collect() {
      const streams = [...open].filter(({ isStream }) => isStream).length;
      this.set({ kind: "unary" }, open.size - streams);
      this.set({ kind: "stream" }, streams);
    },
  });
}

/** Returns the kind of a method's streams, such as `watch_agents`. */
const kindOf = ({ name }: DescMethod): string => name.replaceAll(/(?<!^)[A-Z]/g, "_$&").toLowerCase();

function measureStreams(
  registry: Registry,
  { open, methods, otherStreams }: Pick<CallMetricsOptions, "open" | "methods" | "otherStreams">,
): void {
  const kinds = [...methods].filter(({ methodKind }) => methodKind !== "unary").map(kindOf);
  new Gauge({
    name: "acp_streams_open",
    help: "Open streams, by kind: a streaming method, or `mcp` for a stream of the MCP gateway.",
    labelNames: ["kind"],
    registers: [registry],
    collect() {
      const counts = new Map(kinds.map((kind) => [kind, 0]));
      for (const { isStream, endpoint } of open) {
        if (!isStream) continue;
        const kind = kindOf(endpoint.method);
        counts.set(kind, (counts.get(kind) ?? 0) + 1);
      }
      for (const [kind, count] of counts) this.set({ kind }, count);
      for (const [kind, count] of Object.entries(otherStreams)) this.set({ kind }, count());
    },
  });
}

/** Adds a gauge of the delay of the event loop, which all requests of a process share. */
export function measureEventLoop(registry: Registry): void {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  new Gauge({
    name: "acp_event_loop_delay_seconds",
    help: "Longest delay of the event loop since the metrics were last read.",
    registers: [registry],
    aggregator: "max",
    collect() {
      this.set(Math.max(0, delay.max / 1e9 - LOOK_MS / 1e3));
      delay.reset();
    },
  });
}
