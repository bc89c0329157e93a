import type { Metric, Registry } from "prom-client";
import type { Bound } from "./bounded-label.ts";

/** Metric with its values at one moment, as prom-client prints and aggregates it. */
export type Figure = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>[number] & {
  /** Bound of one of its labels, which the sum of several processes keeps too. */
  readonly bounded?: Bound;
};

/** Metrics of one process at one moment. */
export interface Report {
  readonly gauges: readonly Figure[];
  /** Counters and histograms. */
  readonly counts: readonly Figure[];
}

function read(registry: Registry, takes: (type: string) => boolean): Promise<readonly Figure[]> {
  const metrics = registry.getMetricsAsArray().filter(({ type }) => takes(String(type)));
  return Promise.all(metrics.map((metric) => (metric as unknown as Metric).get() as Promise<Figure>));
}

/** Reads counters and histograms, which asks nothing of the database. */
export const readCounts = (registry: Registry): Promise<readonly Figure[]> =>
  read(registry, (type) => type === "counter" || type === "histogram");

/** Reads all metrics of a process. */
export async function readReport(registry: Registry): Promise<Report> {
  const gauges = await read(registry, (type) => type === "gauge");
  // INVARIANT: counts come last. Gauges wait for the database, and meanwhile newer counts may be reported.
  return { gauges, counts: await readCounts(registry) };
}
