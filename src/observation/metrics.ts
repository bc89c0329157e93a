import type { Registry } from "prom-client";
import { type CounterSeries, TallyCounter } from "../metrics/tally.ts";

/** Counts what sessions could not observe. */
export class ObservationMetrics {
  readonly #unread: CounterSeries;

  constructor(registry: Registry) {
    this.#unread = new TallyCounter({
      name: "acp_observations_unread_total",
      help: "Contents of observations whose reading was given up: no value of them is known, and their sessions are full.",
      labelNames: [],
      registry,
    }).series({});
  }

  /** Counts a content whose reading was given up. */
  givenUp(): void {
    this.#unread.value += 1;
  }
}
