import { Counter, type Registry } from "prom-client";
import type { KindCounts } from "../text/types.ts";

/** Paths below `/v1` that are counted by name; whatever else callers think of counts as `other`. */
const COUNTED_PATHS = ["/chat/completions", "/responses", "/embeddings", "/models"];

/** Counts what goes through the proxy; never what it says. */
export interface ProxyMetrics {
  /** A request whose answer began with this status. */
  answered(path: string, status: number): void;
  /** Personal values that a model said, by kind. */
  leaked(counts: KindCounts): void;
}

/** Registers the metrics of the proxy. */
export function createProxyMetrics(registry: Registry): ProxyMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: "acp_redaction_requests_total",
    help: "Requests to the redaction proxy, by path and by the status of the answer.",
    labelNames: ["path", "status"],
    registers,
  });
  const leaked = new Counter({
    name: "acp_redaction_leaked_total",
    help: "Personal values that models said and that were scrubbed, by kind.",
    labelNames: ["kind"],
    registers,
  });
  return {
    answered(path, status) {
      requests.inc({ path: COUNTED_PATHS.includes(path) ? path : "other", status });
    },
    leaked(counts) {
      for (const [kind, count] of Object.entries(counts)) leaked.inc({ kind }, count);
    },
  };
}
