/* A collector of spans that speaks OTLP over HTTP with Protobuf, as OpenTelemetry specifies it. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import protobuf from "protobufjs";

/** A span as it arrived. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a span that begins its trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly isError: boolean;
}

/** The collector. */
export interface Collector {
  readonly url: string;
  readonly spans: CollectedSpan[];
  /** Everything that arrived. */
  readonly bodies: Buffer[];
  /** How requests are answered. Default: with success. */
  answer: (response: ServerResponse) => void;
  close(): Promise<void>;
}

const { root } = protobuf.parse(`syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { repeated Span spans = 2; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
  repeated KeyValue attributes = 9; repeated Link links = 13; Status status = 15;
}
message Link { bytes trace_id = 1; bytes span_id = 2; }
message Status { int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`);
const REQUEST = root.lookupType("Request");
const KINDS = ["internal", "internal", "server", "client"] as const;
const ERROR = 2;

interface Plain {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly PlainSpan[] }[];
  }[];
}

interface PlainSpan {
  readonly traceId: Buffer;
  readonly spanId: Buffer;
  readonly parentSpanId: Buffer;
  readonly traceState: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly links: readonly { readonly traceId: Buffer; readonly spanId: Buffer }[];
  readonly status: { readonly code: number } | null;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

function spansIn(body: Buffer): CollectedSpan[] {
  const options = { longs: Number, defaults: true, arrays: true };
  const { resourceSpans } = REQUEST.toObject(REQUEST.decode(body), options) as Plain;
  return resourceSpans
    .flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
    .map((span) => ({
      traceId: hex(span.traceId),
      spanId: hex(span.spanId),
      parentSpanId: hex(span.parentSpanId),
      traceState: span.traceState,
      name: span.name,
      kind: KINDS[span.kind] ?? "internal",
      attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
      links: span.links.map(({ traceId, spanId }) => ({ traceId: hex(traceId), spanId: hex(spanId) })),
      isError: span.status?.code === ERROR,
    }));
}

/** Starts a collector on this machine. */
export async function startCollector(): Promise<Collector> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    collector.bodies.push(body);
    collector.spans.push(...spansIn(body));
    collector.answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const collector: Collector = {
    url: `http://127.0.0.1:${port}`,
    spans: [],
    bodies: [],
    answer: (response) => void response.writeHead(200).end(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return collector;
}

/** Runs with the variables of OpenTelemetry that its exporter reads while it is created, and gives those of the service. */
export async function withEndpoint<T>(url: string, run: (env: Record<string, string>) => Promise<T>): Promise<T> {
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = url;
  try {
    return await run({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_BSP_SCHEDULE_DELAY: "20" });
  } finally {
    delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
  }
}
