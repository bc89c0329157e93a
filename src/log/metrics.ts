import { Gauge, type Registry } from "prom-client";
import { BoundedLabel, MAX_MANDATES } from "../metrics/bounded-label.ts";
import { type CounterSeries, type HistogramSeries, TallyCounter, TallyHistogram } from "../metrics/tally.ts";
import type { Decision, FiredMandate } from "../policy/types.ts";
import type { Outcome } from "../state/types.ts";

/** Buckets of decisions, up to the largest batch. */
const BUCKETS_DECISIONS = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/** Counts what the logs of a process append. */
export class LogMetrics {
  readonly #registry: Registry;
  readonly #batches: HistogramSeries;
  readonly #conflicts: CounterSeries;
  readonly #firings: TallyCounter<"mandate" | "decision">;
  readonly #mandates = new BoundedLabel(MAX_MANDATES);
  /** By the word for the mandate. */
  readonly #series = new Map<string, Map<Decision, CounterSeries>>();

  constructor(registry: Registry) {
    this.#registry = registry;
    this.#batches = new TallyHistogram({
      name: "acp_batch_size",
      help: "Decisions that one statement appended to a log together.",
      labelNames: [],
      buckets: BUCKETS_DECISIONS,
      registry,
    }).series({});
    this.#conflicts = new TallyCounter({
      name: "acp_append_conflicts_total",
      help: "Batches that another process overtook, so that they were decided again under the lock of the log.",
      labelNames: [],
      registry,
    }).series({});
    this.#firings = new TallyCounter({
      name: "acp_mandate_firings_total",
      help: "Decisions in the log for which rules of an enforcing mandate fired, by mandate and by what its rules decided.",
      labelNames: ["mandate", "decision"],
      bounded: { label: "mandate", max: MAX_MANDATES },
      registry,
    });
  }

  /** Adds the gauge of what waits in the logs. `waiting` returns its number. */
  measureQueue(waiting: () => number): void {
    new Gauge({
      name: "acp_queue_length",
      help: "Actions and other tasks that wait in the queues of the logs.",
      registers: [this.#registry],
      collect() {
        this.set(waiting());
      },
    });
  }

  /** Counts a batch that has become durable, by the outcomes of its decisions. */
  appended(outcomes: readonly Outcome[]): void {
    this.#batches.observe(outcomes.length);
    for (const { policy } of outcomes) {
      if (policy !== undefined) for (const fired of policy.fired) this.#countFiring(fired);
    }
  }

  /** Counts a batch that another process overtook. */
  overtaken(): void {
    this.#conflicts.value += 1;
  }

  #countFiring({ mandate: { id }, decision }: FiredMandate): void {
    const series = this.#series.get(id)?.get(decision) ?? this.#addFiring(this.#mandates.of(id), decision);
    series.value += 1;
  }

  #addFiring(mandate: string, decision: Decision): CounterSeries {
    const ofMandate = this.#series.get(mandate) ?? new Map<Decision, CounterSeries>();
    this.#series.set(mandate, ofMandate);
    const series = ofMandate.get(decision) ?? this.#firings.series({ mandate, decision });
    ofMandate.set(decision, series);
    return series;
  }
}
