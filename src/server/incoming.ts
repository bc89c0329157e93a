import { randomBytes } from "node:crypto";
import { invalidField } from "../errors.ts";

/** The protocol that a call came in by; a label of the metrics. */
export type Wire = "rest" | "connect" | "grpc-web" | "grpc";

/** One call as a transport hands it to the pipeline. */
export interface IncomingCall {
  readonly wire: Wire;
  /** True once the caller has gone away; costs less than asking the signal. */
  readonly hasLeft: boolean;
  /** Aborts when the caller goes away. MAY be made on first use: most calls never ask for it. */
  readonly signal: AbortSignal;
  /** Milliseconds from `receivedAt` that the caller gives the call; 0 or less has passed already. Absent: the pipeline's default. */
  readonly deadlineMs?: number | undefined;
  /** `performance.now()` when the request was first seen, in milliseconds. */
  readonly receivedAt: number;
  /** Names the call; absent: the pipeline makes one. MUST come from `requestIdFrom`. */
  readonly requestId?: string;
  /** The value of a request header or of gRPC metadata; `name` MUST be in lower case. */
  header(name: string): string | undefined;
}

/** The header that carries the request id, in both directions. */
export const REQUEST_ID_HEADER = "x-request-id";

const SANE_REQUEST_ID = /^[A-Za-z0-9._:/+=-]{1,128}$/;
const PROCESS_ID = randomBytes(9).toString("base64url");
let made = 0;

/** The caller's id when it is 1 to 128 plain characters, else a new one that no other process makes. */
export function requestIdFrom(given: string | undefined): string {
  if (given !== undefined && SANE_REQUEST_ID.test(given)) return given;
  made += 1;
  return `${PROCESS_ID}-${made.toString(36)}`;
}

const MILLISECONDS = /^\d{1,10}$/;

/** Reads a time-out in whole milliseconds. Throws INVALID_FIELD that names the header when it is anything else. */
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

/** Reads the `grpc-timeout` of the gRPC protocols, in milliseconds. Throws INVALID_FIELD when it is none. */
export function timeoutFromGrpcHeader(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const [, digits, unit] = GRPC_TIMEOUT.exec(value) ?? [];
  const unitMs = GRPC_UNIT_MS[unit ?? ""];
  if (unitMs === undefined) throw invalidField("grpc-timeout", "must be up to 8 digits and one of `H M S m u n`");
  return Number(digits) * unitMs;
}
