import { collectDefaultMetrics, Gauge, Registry } from "prom-client";

/**
 * Figures of prom-client about a process that are shown. Left out are those with names that the rules of Prometheus do not allow, those
 * that repeat others, and the delay of the event loop, which `acp_event_loop_delay_seconds` shows at its longest.
 */
const SHOWN = [
  "process_cpu_user_seconds_total",
  "process_cpu_system_seconds_total",
  "process_cpu_seconds_total",
  "process_start_time_seconds",
  "process_resident_memory_bytes",
  "process_virtual_memory_bytes",
  "process_open_fds",
  "process_max_fds",
  "nodejs_heap_size_total_bytes",
  "nodejs_heap_size_used_bytes",
  "nodejs_external_memory_bytes",
  "nodejs_gc_duration_seconds",
  "nodejs_version_info",
];

/** Adds figures of the process, and the version of the program. */
export function measureProcess(registry: Registry, version: string): void {
  const all = new Registry();
  collectDefaultMetrics({ register: all });
  for (const name of SHOWN) {
    const metric = all.getSingleMetric(name);
    // Some exist on Linux only.
    if (metric !== undefined) registry.registerMetric(metric);
  }
  // The first of several workers.
  Object.assign(registry.getSingleMetric("process_start_time_seconds") ?? {}, { aggregator: "min" });
  new Gauge({
    name: "acp_build_info",
    help: "Always 1; the label names the version of the program.",
    labelNames: ["version"],
    registers: [registry],
    aggregator: "first",
  }).set({ version }, 1);
}
