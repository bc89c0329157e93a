import type { Span, Tracing } from "../tracing/tracing.ts";
import type { Call } from "./call-context.ts";
import type { Wire } from "./incoming-call.ts";

/** Names of the wires in OpenTelemetry's conventions; REST has none there. */
const SYSTEMS: Readonly<Record<Wire, string>> = {
  rest: "rest",
  connect: "connectrpc",
  "grpc-web": "grpc",
  grpc: "grpc",
};
/** Codes that say that the service failed, not its caller. */
const FAULTS: ReadonlySet<string> = new Set([
  "UNKNOWN",
  "DEADLINE_EXCEEDED",
  "UNIMPLEMENTED",
  "INTERNAL",
  "UNAVAILABLE",
  "DATA_LOSS",
]);

/** Begins the span of a call, within the trace that its caller sent. */
export function startCallSpan(tracing: Tracing, { endpoint, incoming, trace }: Call): Span {
  const attributes = { "rpc.system.name": SYSTEMS[incoming.wire], "rpc.method": endpoint.name };
  return tracing.start(endpoint.name, { kind: "server", parent: trace, attributes });
}

/** Ends the span of a call that ended with a gRPC code. Connect writes the same code in lower case. */
export function endCallSpan(span: Span, wire: Wire, code: string): void {
  const word = wire === "connect" && code === "CANCELLED" ? "canceled" : code;
  const status = wire === "connect" && code !== "OK" ? word.toLowerCase() : word;
  span.set({ "rpc.status_code": status });
  span.end(FAULTS.has(code) ? status : undefined);
}
