/** A place in a trace: the span that work belongs to, in the terms of W3C Trace Context. */
export interface TracePlace {
  /** 32 lower-case hexadecimal digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits, not all zero. */
  readonly spanId: string;
  /** True if the trace is recorded. */
  readonly isSampled: boolean;
  /** True for a span of another program. */
  readonly isRemote: boolean;
  /** The `tracestate` that travels with the trace; undefined for none. */
  readonly state: string | undefined;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
const SAMPLED = 1;
/** Maximum characters of a `traceparent`. A later version may append fields to the 55 characters of the present one. */
const MAX_TRACEPARENT = 128;
/** Maximum characters of a `tracestate` that is taken and passed on. */
const MAX_TRACESTATE = 512;
const TRACESTATE = /^[\x20-\x7e\t]*$/;
/** Maximum characters of a `baggage` that is passed on, as W3C Baggage says. */
const MAX_BAGGAGE = 8_192;

/**
 * Reads the trace context that came with a call. Undefined for anything but a valid `traceparent`: a call never fails for its
 * trace. A `tracestate` that is too long or not ASCII is left out.
 */
export function traceContextFrom(traceparent: unknown, tracestate?: unknown): TracePlace | undefined {
  if (typeof traceparent !== "string" || traceparent.length > MAX_TRACEPARENT) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", more] = TRACEPARENT.exec(traceparent) ?? [];
  const isValid = version !== undefined && version !== "ff" && (version !== "00" || more === undefined);
  if (!isValid || ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  const isSampled = (Number.parseInt(flags, 16) & SAMPLED) !== 0;
  return { traceId, spanId, isSampled, isRemote: true, state: traceStateFrom(tracestate) };
}

/** Writes the `traceparent` of a place. */
export const traceparentOf = ({ traceId, spanId, isSampled }: TracePlace): string =>
  `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;

/** Returns the header by which a place is passed to a party that gets neither `tracestate` nor `baggage`, which are free text. */
export const traceHeaderOf = (place: TracePlace | undefined): { readonly traceparent?: string } =>
  place === undefined ? {} : { traceparent: traceparentOf(place) };

/** Tests whether a caller's `traceparent`, `tracestate` or `baggage` may be passed on to another program as it is. */
export function mayPassOn(name: string, value: unknown): boolean {
  if (name === "traceparent") return traceContextFrom(value) !== undefined;
  if (name === "tracestate") return traceStateFrom(value) !== undefined;
  if (name === "baggage") return typeof value === "string" && value.length <= MAX_BAGGAGE;
  return true;
}

function traceStateFrom(given: unknown): string | undefined {
  const isPlain = typeof given === "string" && given !== "" && given.length <= MAX_TRACESTATE && TRACESTATE.test(given);
  return isPlain ? given : undefined;
}
