import type { Registry } from "prom-client";
import { type CounterSeries, type HistogramSeries, TallyCounter, TallyHistogram } from "../metrics/tally.ts";
import type { Decision } from "../policy/types.ts";
import type { DecisionPath, SealedDecision } from "../state/types.ts";

/**
 * Way by which an action came: a unary call over one of four protocols, a request of an `InterceptStream` over any of them, a call
 * through the MCP gateway, a hook of a coding agent, or a person who edited the action.
 */
export type DecisionWire = "rest" | "connect" | "grpc-web" | "grpc" | "stream" | "gateway" | "hook" | "edit";

/** Buckets in seconds, from half a millisecond to the default deadline. */
const BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Series of one wire. */
interface WireSeries {
  readonly seconds: HistogramSeries;
  readonly paths: Map<DecisionPath, Map<Decision, CounterSeries>>;
}

/** Counts decisions, of every wire alike. */
export class DecisionMetrics {
  readonly #total: TallyCounter<"decision" | "path" | "wire">;
  readonly #seconds: TallyHistogram<"wire">;
  readonly #wires = new Map<DecisionWire, WireSeries>();

  constructor(registry: Registry) {
    this.#total = new TallyCounter({
      name: "acp_decisions_total",
      help: "Decisions that are in the log, by decision, by the step that decided, and by the way the action came.",
      labelNames: ["decision", "path", "wire"],
      registry,
    });
    this.#seconds = new TallyHistogram({
      name: "acp_decision_seconds",
      help: "Seconds from the receipt of an action to its decision in the log, by the way it came.",
      labelNames: ["wire"],
      buckets: BUCKETS_SECONDS,
      registry,
    });
  }

  /**
   * Counts a decision that was asked for at `receivedAt`, milliseconds of `performance.now()`. An answer that decided nothing anew
   * does not count.
   */
  record(
    { decision, path, isReplayed }: Pick<SealedDecision, "decision" | "path" | "isReplayed">,
    wire: DecisionWire,
    receivedAt: number,
  ): void {
    if (isReplayed) return;
    const series = this.#wires.get(wire) ?? this.#addWire(wire);
    series.seconds.observe((performance.now() - receivedAt) / 1_000);
    const counter = series.paths.get(path)?.get(decision) ?? this.#addCounter(series, { decision, path, wire });
    counter.value += 1;
  }

  #addWire(wire: DecisionWire): WireSeries {
    const series = { seconds: this.#seconds.series({ wire }), paths: new Map() };
    this.#wires.set(wire, series);
    return series;
  }

  #addCounter(
    { paths }: WireSeries,
    labels: { readonly decision: Decision; readonly path: DecisionPath; readonly wire: DecisionWire },
  ): CounterSeries {
    const { decision, path } = labels;
    const ofPath = paths.get(path) ?? new Map<Decision, CounterSeries>();
    paths.set(path, ofPath);
    const counter = this.#total.series(labels);
    ofPath.set(decision, counter);
    return counter;
  }
}
