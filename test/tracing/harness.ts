/* A service whose spans arrive at a collector. */
import { randomBytes } from "node:crypto";
import { type GatewayService, startGateway } from "../gateway/harness.ts";
import { until } from "../gateway/until.ts";
import { type CollectedSpan, type Collector, startCollector, withEndpoint } from "./collector.ts";

/** Span id that callers of the tests send. */
export const CALLERS_SPAN = "b7ad6b7169203331";

/** Makes a trace id. */
export const newTrace = (): string => randomBytes(16).toString("hex");

/** The `traceparent` of a caller in a trace. */
export const traceparentIn = (traceId: string, isSampled = true): string =>
  `00-${traceId}-${CALLERS_SPAN}-${isSampled ? "01" : "00"}`;

/** A service and its collector. */
export interface Traced {
  readonly gateway: GatewayService;
  readonly collector: Collector;
  /** The spans of a trace, once one among them has a name that begins so. */
  spansOf(traceId: string, name: string): Promise<CollectedSpan[]>;
  /** True if a text stands in anything that arrived. */
  hasSent(text: string): boolean;
  stop(): Promise<void>;
}

/** The first of the spans whose name begins so. */
export const named = (spans: readonly CollectedSpan[], name: string): CollectedSpan =>
  spans.find((span) => span.name.startsWith(name)) as CollectedSpan;

/** Starts the service with a collector of its own. */
export async function startTraced(env: Readonly<Record<string, string>> = {}): Promise<Traced> {
  const collector = await startCollector();
  const gateway = await withEndpoint(collector.url, (own) => startGateway({ env: { ...own, ...env } }));
  return {
    gateway,
    collector,
    async spansOf(traceId, name) {
      const found = () => collector.spans.filter((span) => span.traceId === traceId);
      await until(async () => found().some((span) => span.name.startsWith(name)));
      return found();
    },
    hasSent: (text) => collector.bodies.some((body) => body.includes(text)),
    async stop() {
      await gateway.stop();
      await collector.close();
    },
  };
}
