import { AggregatorRegistry, type Registry } from "prom-client";
import { BoundedLabel } from "./bounded-label.ts";
import type { Figure } from "./report.ts";

type Figures = readonly Figure[];

/** Counts of the processes that took one place in the service, one after the other. */
interface Place {
  /** Sum of those that have ended. */
  readonly ended: Promise<Figures>;
  /** Counts of the present one, as it last reported them; undefined until it does. */
  readonly counts: Figures | undefined;
}

/** Joins the metrics of processes. The aggregator of each says how: most add up, and a few show the minimum or the maximum. */
const joined = (figures: readonly Figures[]): Registry => AggregatorRegistry.aggregate([...figures]);

async function sumOf({ ended, counts = [] }: Place): Promise<Figures> {
  return joined([await ended, counts]).getMetricsAsJSON();
}

/**
 * Metrics of all processes of a service, added up. The counts of a process stay in the sum after its end, so that no counter goes
 * back when another takes its place.
 */
export class ProcessSums {
  // INVARIANT: numbers are added in one order, those of a place first. Another order would round a sum of seconds to another number,
  // now and then to a lower one.
  readonly #places = new Map<number, Place>();
  readonly #labels = new Map<string, BoundedLabel>();

  /** True if the process at a place has reported. */
  hasReported(place: number): boolean {
    return this.#places.get(place)?.counts !== undefined;
  }

  /** Takes the counts of the process at a place, in place of its earlier ones. MUST be called in the order in which they were read. */
  take(place: number, counts: Figures): void {
    const { ended } = this.#at(place);
    this.#places.set(place, { ended, counts: counts.map((figure) => this.#within(figure)) });
  }

  /** Keeps what the process at a place counted, since it has ended. */
  end(place: number): void {
    this.#places.set(place, { ended: sumOf(this.#at(place)), counts: undefined });
  }

  /** Returns the page of the sums, with the gauges of the processes. */
  async page(gauges: readonly Figures[]): Promise<string> {
    const sums = await Promise.all([...this.#places.values()].map(sumOf));
    return joined([...gauges, ...sums]).metrics();
  }

  #at(place: number): Place {
    return this.#places.get(place) ?? { ended: Promise.resolve([]), counts: undefined };
  }

  /** Names as many values of a bounded label as one process may, however many the processes name together. */
  #within(figure: Figure): Figure {
    const { bounded, name } = figure;
    if (bounded === undefined) return figure;
    const { label, max } = bounded;
    const words = this.#labels.get(name) ?? new BoundedLabel(max);
    this.#labels.set(name, words);
    const values = figure.values.map((value) => ({
      ...value,
      labels: { ...value.labels, [label]: words.of(String(value.labels[label])) },
    }));
    return { ...figure, values };
  }
}
