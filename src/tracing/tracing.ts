import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { TracePlace } from "./trace-context.ts";

/** Values of a span's attributes. They MUST name nothing that a caller wrote, such as arguments, contents or names of people. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Kinds of spans: a call from outside, a call of another program, or a step within. */
export type SpanKind = "server" | "client" | "internal";

/** A span that has begun. */
export interface Span extends TracePlace {
  set(attributes: Attributes): void;
  rename(name: string): void;
  /** Ends the span, with the class of the error if the work failed. Only the first end counts. */
  end(errorType?: string): void;
}

/** Kind, parent and attributes of a span. */
export interface SpanOptions {
  readonly kind: SpanKind;
  /** Place that the work belongs to; undefined begins a trace. */
  readonly parent: TracePlace | undefined;
  readonly attributes?: Attributes;
  /** Other places that the work serves. */
  readonly links?: readonly TracePlace[];
}

/** Records what the service does as spans. Nothing waits for it, and it MUST NOT throw. */
export interface Tracing {
  start(name: string, options: SpanOptions): Span;
  /** Sends what is recorded, at most for `ms` milliseconds. */
  close(ms: number): Promise<void>;
}

/** Runs work in a span, which ends with it. Without tracing, runs the work alone. */
export async function inSpan<T>(
  tracing: Tracing | undefined,
  name: string,
  options: () => SpanOptions,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  if (tracing === undefined) return work(undefined);
  const span = tracing.start(name, options());
  try {
    const result = await work(span);
    span.end();
    return result;
  } catch (error) {
    span.end(errorTypeOf(error));
    throw error;
  }
}

/** Returns the class of an error, which is its reason for one of ours. Its words may quote a request. */
export function errorTypeOf(error: unknown): string {
  const reason = error instanceof ControlPlaneError ? ErrorReason[error.reason] : undefined;
  return reason ?? (error instanceof Error ? error.name : "_OTHER");
}
