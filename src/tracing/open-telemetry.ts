import type { Agent } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type * as Api from "@opentelemetry/api";
import type * as Resources from "@opentelemetry/resources";
import type * as Sdk from "@opentelemetry/sdk-trace";
import type { TraceSettings } from "./settings.ts";
import type { TracePlace } from "./trace-context.ts";
import type { Attributes, Span, SpanOptions, Tracing } from "./tracing.ts";

/** Log of a tracer, such as a pino logger. */
export interface TraceLog {
  warn(details: object, message: string): void;
}

const SERVICE = "agent-control-plane";
const PACKAGES = [
  "@opentelemetry/api@1",
  "@opentelemetry/sdk-trace@3",
  "@opentelemetry/resources@3",
  "@opentelemetry/exporter-trace-otlp-proto@0.301",
];
/** Maximum characters of an attribute's value. */
const MAX_VALUE = 256;
/** Milliseconds between two lines of the log about spans that could not be sent. */
const QUIET_MS = 60_000;
/** Exports that may be in flight at once. */
const MAX_EXPORTS = 4;

/** An optional package that the settings need and that is not installed. */
export class MissingPackage extends Error {
  override readonly name = "MissingPackage";
}

/** The part of an exporter that is used. */
interface ExporterPackage {
  readonly OTLPTraceExporter: new (options: {
    readonly concurrencyLimit: number;
    readonly httpAgentOptions: (protocol: string) => Promise<Agent>;
  }) => Sdk.SpanExporter;
}

/**
 * Starts tracing with OpenTelemetry. Its packages are optional, and loaded only here. Rejects with `MissingPackage`, whose message
 * has the command that installs them.
 */
export async function startTracing(settings: TraceSettings, log: TraceLog): Promise<Tracing> {
  const load = async <T>(name: string): Promise<T> => {
    try {
      return (await import(name)) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
      const line = `npm install --no-save ${PACKAGES.join(" ")}`;
      const text = `the variables OTEL_… ask for traces, which need packages that are not installed: ${line}`;
      throw new MissingPackage(text, { cause: error });
    }
  };
  const api = await load<typeof Api>("@opentelemetry/api");
  const sdk = await load<typeof Sdk>("@opentelemetry/sdk-trace");
  const resources = await load<typeof Resources>("@opentelemetry/resources");
  const { OTLPTraceExporter } = await load<ExporterPackage>("@opentelemetry/exporter-trace-otlp-proto");
  const agents: Agent[] = [];
  const exporter = new OTLPTraceExporter({
    concurrencyLimit: MAX_EXPORTS,
    // Kept, because a collector that never answers would hold the process at its end.
    httpAgentOptions: async (protocol) => {
      const { Agent: HttpAgent } = protocol === "https:" ? await import("node:https") : await import("node:http");
      const agent = new HttpAgent({ keepAlive: true });
      agents.push(agent);
      return agent;
    },
  });
  const { maxQueueSize, maxExportBatchSize, scheduledDelayMillis, exportTimeoutMillis } = settings.queue;
  const processor = new sdk.BatchSpanProcessor({
    exporter: reporting(exporter, log),
    ...(maxQueueSize === undefined ? {} : { maxQueueSize }),
    ...(maxExportBatchSize === undefined ? {} : { maxExportBatchSize }),
    ...(scheduledDelayMillis === undefined ? {} : { scheduledDelayMillis }),
    ...(exportTimeoutMillis === undefined ? {} : { exportTimeoutMillis }),
  });
  const own = resources.resourceFromAttributes({ "service.name": SERVICE });
  const resource = resources
    .defaultResource()
    .merge(own)
    .merge(
      // Only what the operator names: other detectors send command lines and account names.
      resources.detectResources({ detectors: [resources.envDetector] }),
    );
  const provider = new sdk.TracerProvider({
    resource,
    sampler: samplerFrom(sdk, settings),
    spanLimits: { attributeValueLengthLimit: MAX_VALUE },
    spanProcessors: [processor],
  });
  return new OpenTelemetryTracing(api, provider, () => {
    for (const agent of agents) agent.destroy();
  });
}

function samplerFrom(sdk: typeof Sdk, { sampler: { kind, isParentBased }, ratio }: TraceSettings): Sdk.Sampler {
  const root = {
    always_on: () => new sdk.AlwaysOnSampler(),
    always_off: () => new sdk.AlwaysOffSampler(),
    traceidratio: () => new sdk.TraceIdRatioBasedSampler(ratio),
  }[kind]();
  return isParentBased ? new sdk.ParentBasedSampler({ root }) : root;
}

/** Says in the log, once a minute at most, that spans could not be sent. The words of the collector are left out. */
function reporting(exporter: Sdk.SpanExporter, log: TraceLog): Sdk.SpanExporter {
  let toldAt = Number.NEGATIVE_INFINITY;
  let lost = 0;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code !== 0) {
          lost += spans.length;
          const now = performance.now();
          if (now - toldAt >= QUIET_MS) {
            const { code } = (result.error ?? {}) as { readonly code?: unknown };
            const cause = /^[\w-]{1,64}$/.test(String(code)) ? String(code) : undefined;
            log.warn({ spans: lost, cause }, "spans of traces could not be sent");
            toldAt = now;
            lost = 0;
          }
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush === undefined ? {} : { forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve() }),
  };
}

class OpenTelemetryTracing implements Tracing {
  readonly #api: typeof Api;
  readonly #provider: Sdk.TracerProvider;
  readonly #tracer: Api.Tracer;
  readonly #release: () => void;

  constructor(api: typeof Api, provider: Sdk.TracerProvider, release: () => void) {
    this.#api = api;
    this.#provider = provider;
    this.#tracer = provider.getTracer(SERVICE);
    this.#release = release;
  }

  start(name: string, { kind, parent, attributes = {}, links = [] }: SpanOptions): Span {
    const { trace, ROOT_CONTEXT, SpanKind } = this.#api;
    const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
    const context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, this.#contextOf(parent));
    const options = {
      kind: kinds[kind],
      attributes: defined(attributes),
      links: links.map((link) => ({ context: this.#contextOf(link) })),
    };
    return new OpenTelemetrySpan(this.#api, this.#tracer.startSpan(name, options, context), parent?.state);
  }

  async close(ms: number): Promise<void> {
    const ending = new AbortController();
    const flushed = this.#provider.shutdown().catch(() => undefined);
    await Promise.race([flushed, delay(ms, undefined, { signal: ending.signal }).catch(() => undefined)]);
    ending.abort();
    this.#release();
  }

  #contextOf({ traceId, spanId, isSampled, isRemote, state }: TracePlace): Api.SpanContext {
    const { TraceFlags, createTraceState } = this.#api;
    return {
      traceId,
      spanId,
      isRemote,
      traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
      ...(state === undefined ? {} : { traceState: createTraceState(state) }),
    };
  }
}

class OpenTelemetrySpan implements Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  readonly isRemote = false;
  readonly state: string | undefined;
  readonly #api: typeof Api;
  readonly #span: Api.Span;
  #isOver = false;

  constructor(api: typeof Api, span: Api.Span, state: string | undefined) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceId = traceId;
    this.spanId = spanId;
    this.isSampled = (traceFlags & api.TraceFlags.SAMPLED) !== 0;
    this.state = state;
    this.#api = api;
    this.#span = span;
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(defined(attributes));
  }

  rename(name: string): void {
    this.#span.updateName(name);
  }

  end(errorType?: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (errorType !== undefined) {
      this.#span.setAttribute("error.type", errorType);
      this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

function defined(attributes: Attributes): Record<string, string | number | boolean> {
  const given: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) given[name] = value;
  return given;
}
