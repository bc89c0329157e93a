import type { Metric, Registry } from "prom-client";
import type { Bound } from "./bounded-label.ts";

/** Values of a series' labels, by label. Words of a closed list, or of a `BoundedLabel`. */
type Labels<T extends string> = Readonly<Record<T, string>>;

/** Description of a metric. */
interface TallyOptions<T extends string> {
  readonly name: string;
  /** One sentence. */
  readonly help: string;
  readonly labelNames: readonly T[];
  /** Bound that its user keeps for one of the labels. Default: all labels have words of closed lists. */
  readonly bounded?: Bound & { readonly label: T };
  readonly registry: Registry;
}

/** A value as prom-client prints and aggregates it. */
interface Value {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

/** Registers a metric that is read when it is scraped. */
function register<T extends string>(
  { name, help, labelNames, bounded, registry }: TallyOptions<T>,
  type: "counter" | "histogram",
  values: () => Value[],
): void {
  const get = async () => ({ name, help, type, aggregator: "sum", bounded, values: values() });
  // prom-client's registry reads these members of a metric alone.
  registry.registerMetric({ name, help, labelNames, type, aggregator: "sum", get } as unknown as Metric);
}

/** One series of a `TallyCounter`. */
export interface CounterSeries {
  /** Only ever increased. */
  value: number;
}

/**
 * A counter for hot code: its user keeps each series and adds to a number. prom-client's own counter writes the labels of a series
 * into a text at each increment, which costs a hundred times as much.
 */
export class TallyCounter<T extends string> {
  readonly #series: (CounterSeries & { readonly labels: Labels<T> })[] = [];

  constructor(options: TallyOptions<T>) {
    register(options, "counter", () => this.#series.map(({ labels, value }) => ({ labels, value })));
  }

  /** Adds a series, which starts at zero. MUST be called once for the same labels. */
  series(labels: Labels<T>): CounterSeries {
    const series = { labels, value: 0 };
    this.#series.push(series);
    return series;
  }
}

/** One series of a `TallyHistogram`. */
export class HistogramSeries {
  readonly #bounds: readonly number[];
  /** Observations by bucket; the last has those above every bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
  }

  /** Returns the cumulative buckets, the sum and the count. */
  values(name: string, labels: Labels<string>): Value[] {
    let count = 0;
    const buckets = this.#counts.map((inBucket, index) => {
      count += inBucket;
      const le = this.#bounds[index] ?? "+Inf";
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** A histogram for hot code, whose user keeps each series. */
export class TallyHistogram<T extends string> {
  readonly #bounds: readonly number[];
  readonly #series: { readonly labels: Labels<T>; readonly series: HistogramSeries }[] = [];

  /** `buckets`: upper bounds, ascending. */
  constructor({ buckets, ...options }: TallyOptions<T> & { readonly buckets: readonly number[] }) {
    this.#bounds = buckets;
    const { name } = options;
    register(options, "histogram", () => this.#series.flatMap(({ series, labels }) => series.values(name, labels)));
  }

  /** Adds a series without observations. MUST be called once for the same labels. */
  series(labels: Labels<T>): HistogramSeries {
    const series = new HistogramSeries(this.#bounds);
    this.#series.push({ labels, series });
    return series;
  }
}
