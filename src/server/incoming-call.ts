import { randomUUID } from "node:crypto";
import { ControlPlaneError, invalidField } from "../errors.ts";
import { cancelled } from "./errors.ts";

/** Protocol of a call; a label of the metrics. */
export type Wire = "rest" | "connect" | "grpc-web" | "grpc";

/** One call as a protocol's server passes it to the pipeline. */
export interface IncomingCall {
  readonly wire: Wire;
  /** `performance.now()` when the request was first seen, in milliseconds. */
  readonly receivedAt: number;
  /** Names the call in the response, the log and INTERNAL errors. MUST come from `requestIdFrom`. */
  readonly requestId: string;
  /** IP address of the caller; absent if it is no longer known. */
  readonly address?: string | undefined;
  /** Returns a request header or gRPC metadata; `name` MUST be in lower case. */
  header(name: string): string | undefined;
  /**
   * Returns the caller's timeout in milliseconds from `receivedAt`; 0 or less has already passed. Undefined means the pipeline's
   * default. Throws INVALID_FIELD for an unreadable timeout.
   */
  timeoutMs(): number | undefined;
  /** Calls back once if the caller disconnects or its stream closes. `reason` creates CANCELLED or DEADLINE_EXCEEDED. */
  onLeave(listener: (reason: () => ControlPlaneError) => void): void;
}

/** Time and id of an HTTP request, set before its path is looked up. */
export type Arrival = Pick<IncomingCall, "receivedAt" | "requestId">;

/** The header that carries the request id, in both directions. */
export const REQUEST_ID_HEADER = "x-request-id";

const SANE_REQUEST_ID = /^[A-Za-z0-9._:/+=-]{1,128}$/;

/** Returns the caller's request id if it has 1 to 128 plain characters, otherwise a new one. */
export function requestIdFrom(given: string | undefined): string {
  return given !== undefined && SANE_REQUEST_ID.test(given) ? given : randomUUID();
}

const MILLISECONDS = /^\d{1,10}$/;

/** Reads a timeout in whole milliseconds. Throws INVALID_FIELD, which names the header, for any other value. */
export function timeoutFromHeader(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!MILLISECONDS.test(value))
    throw invalidField(name, "must be a whole number of milliseconds of at most 10 digits");
  return Number(value);
}

const GRPC_TIMEOUT = /^(\d{1,8})([HMSmun])$/;
const GRPC_UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000_001,
};

/** Reads the `grpc-timeout` header, in milliseconds. Throws INVALID_FIELD when it is malformed. */
export function timeoutFromGrpcHeader(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const [, digits, unit] = GRPC_TIMEOUT.exec(value) ?? [];
  const unitMs = GRPC_UNIT_MS[unit ?? ""];
  if (unitMs === undefined) throw invalidField("grpc-timeout", "must be up to 8 digits and one of `H M S m u n`");
  return Number(digits) * unitMs;
}

/** Calls back when a signal fires, with its reason if that is a `ControlPlaneError`, otherwise with CANCELLED. */
export function onAbort(signal: AbortSignal, listener: (reason: () => ControlPlaneError) => void): void {
  const leave = () => listener(() => (signal.reason instanceof ControlPlaneError ? signal.reason : cancelled()));
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
}
