import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";

/** The names in `google.rpc.Code`. */
export type RequestErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** One invalid request field. */
export interface RequestFieldViolation {
  /** Path to the field in the request, snake_case. */
  readonly field: string;
  /** States why the value is invalid and what to change. */
  readonly description: string;
  /** A stable UPPER_SNAKE_CASE identifier. */
  readonly reason: string;
}

/** Optional parts of a `ControlPlaneRequestError`. */
export interface RequestErrorDetails {
  readonly reason?: string | null;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly RequestFieldViolation[];
  /** Default true. */
  readonly reached?: boolean;
  readonly cause?: unknown;
}

/** Error of a call that was refused or did not reach the control plane. Nothing was decided, or the response was lost. */
export class ControlPlaneRequestError extends Error {
  override readonly name = "ControlPlaneRequestError";
  readonly code: RequestErrorCode;
  /** Stable identifier of the fault, such as `AGENT_NOT_FOUND`; null if the fault did not come from the control plane. */
  readonly reason: string | null;
  /** The values in the message, by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The invalid request fields. */
  readonly violations: readonly RequestFieldViolation[];
  /**
   * False if no connection could be made, so that nothing was sent. True if the request may have arrived, and may have been
   * decided.
   */
  readonly reached: boolean;

  constructor(code: RequestErrorCode, message: string, details: RequestErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.reason = details.reason ?? null;
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
    this.reached = details.reached ?? true;
  }
}

const CODE_NAMES: ReadonlyMap<number, RequestErrorCode> = new Map<number, RequestErrorCode>([
  [Code.Canceled, "CANCELLED"],
  [Code.Unknown, "UNKNOWN"],
  [Code.InvalidArgument, "INVALID_ARGUMENT"],
  [Code.DeadlineExceeded, "DEADLINE_EXCEEDED"],
  [Code.NotFound, "NOT_FOUND"],
  [Code.AlreadyExists, "ALREADY_EXISTS"],
  [Code.PermissionDenied, "PERMISSION_DENIED"],
  [Code.ResourceExhausted, "RESOURCE_EXHAUSTED"],
  [Code.FailedPrecondition, "FAILED_PRECONDITION"],
  [Code.Aborted, "ABORTED"],
  [Code.OutOfRange, "OUT_OF_RANGE"],
  [Code.Unimplemented, "UNIMPLEMENTED"],
  [Code.Internal, "INTERNAL"],
  [Code.Unavailable, "UNAVAILABLE"],
  [Code.DataLoss, "DATA_LOSS"],
  [Code.Unauthenticated, "UNAUTHENTICATED"],
]);

/** Returns the name of a gRPC code; `UNKNOWN` for an undefined number. */
export function requestErrorCodeFrom(code: number): RequestErrorCode {
  return CODE_NAMES.get(code) ?? "UNKNOWN";
}

/** Converts the error of a Connect call to a `ControlPlaneRequestError` with reason, metadata and violations. */
export function requestErrorFrom(error: unknown): ControlPlaneRequestError {
  if (error instanceof ControlPlaneRequestError) return error;
  const fault = ConnectError.from(error);
  const [info] = fault.findDetails(ErrorInfoSchema);
  if (info === undefined && isBroken(fault)) return unreachable(fault);
  // The fault is not from the control plane, and waiting does not cure it.
  const code = info === undefined && fault.code === Code.Unavailable ? Code.ResourceExhausted : fault.code;
  const violations = fault
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations)
    .map(({ field, description, reason }) => ({ field, description, reason }));
  return new ControlPlaneRequestError(requestErrorCodeFrom(code), fault.rawMessage, {
    reason: info?.reason ?? null,
    metadata: info?.metadata ?? {},
    violations,
    cause: fault,
  });
}

/** Tests for a fault without a response: the control plane or the connection to it is down, or was not made. */
export function isUnreachable({ code }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}

/** Tests for a fault after which the same call, with the same `request_id`, may succeed a little later. */
export function isTransient({ code, reason }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || reason === "OVERLOADED" || reason === "RATE_LIMITED";
}

/**
 * Tests for a connection that failed or broke, and for a response on the way to the control plane that says "unavailable" (HTTP
 * 502, 503 and 504). A request that could not be made at all, such as to a malformed address or with TLS to a server without TLS,
 * does not count.
 */
function isBroken(fault: ConnectError): boolean {
  if (fault.code === Code.Unavailable) return fault.rawMessage !== TOO_MANY_REQUESTS && !isMisconfigured(fault);
  if (fault.code !== Code.Aborted && fault.code !== Code.Unknown) return false;
  return isNetworkFault(fault);
}

/** Message of the transport for HTTP 429. */
const TOO_MANY_REQUESTS = "HTTP 429";

/** Codes of Node for faults of a connection. */
const NETWORK_CODES =
  /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOST|ENET|EPIPE|UND_ERR_(SOCKET|CONNECT|HEADERS_TIMEOUT|BODY_TIMEOUT|CLOSED|DESTROYED)|ERR_HTTP2_|ERR_STREAM_PREMATURE_CLOSE)/;
/** Codes of Node for faults that waiting does not cure: TLS mismatches, certificates, malformed addresses and responses. */
const CONFIGURATION_CODES =
  /^(ERR_SSL|ERR_TLS|ERR_OSSL|EPROTO$|CERT_|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|HPE_|ERR_INVALID|UND_ERR_INVALID)/;
/** Messages of browsers for a failed connection, which have no cause. */
const BROWSER_FAULT = /^(Failed to fetch|Load failed|NetworkError|network error|The network connection was lost)/i;

/** An error of the platform, as far as it says what failed. */
interface PlatformError extends Error {
  readonly code?: unknown;
  /** System call that failed. */
  readonly syscall?: unknown;
  /** Faults of the addresses of a host, all of which Node tries. */
  readonly errors?: readonly PlatformError[];
}

/** Returns the causes of an error, the outermost first, with the faults that Node reports together. */
function causesOf(error: Error): readonly PlatformError[] {
  const causes: PlatformError[] = [];
  let cause: unknown = error.cause;
  for (let depth = 0; depth < 5 && cause instanceof Error; depth++) {
    causes.push(cause, ...((cause as PlatformError).errors ?? []));
    cause = cause.cause;
  }
  return causes;
}

const codesOf = (error: Error): readonly string[] =>
  causesOf(error)
    .map(({ code }) => code)
    .filter((code) => typeof code === "string");

/** System calls of Node that make a connection. */
const CONNECTING: readonly unknown[] = ["connect", "getaddrinfo"];

/** Tests for a fault of making a connection. The platforms of browsers do not tell it from others. */
const isUnconnected = (fault: ConnectError): boolean =>
  causesOf(fault).some(({ code, syscall }) => CONNECTING.includes(syscall) || code === "UND_ERR_CONNECT_TIMEOUT");

const isMisconfigured = (fault: ConnectError): boolean => codesOf(fault).some((code) => CONFIGURATION_CODES.test(code));

function isNetworkFault(fault: ConnectError): boolean {
  const codes = codesOf(fault);
  if (codes.some((code) => CONFIGURATION_CODES.test(code))) return false;
  if (codes.some((code) => NETWORK_CODES.test(code))) return true;
  const { cause } = fault;
  return codes.length === 0 && cause instanceof TypeError && BROWSER_FAULT.test(cause.message);
}

function unreachable(fault: ConnectError): ControlPlaneRequestError {
  const root = fault.cause === undefined ? "" : rootMessage(fault);
  const why = fault.rawMessage.includes(root) ? fault.rawMessage : root;
  const details = { reached: !isUnconnected(fault), cause: fault };
  return new ControlPlaneRequestError("UNAVAILABLE", `the control plane did not answer: ${why}`, details);
}

/** Converts the platform's fault of a request to an address: `fetch` itself says neither where nor why it failed. */
export function connectionError(address: string, cause: unknown): ConnectError {
  const why = cause instanceof Error ? rootMessage(cause) : String(cause);
  return new ConnectError(`${address}: ${why}`, Code.Unknown, undefined, undefined, cause);
}

/** Returns the message of the innermost cause, or of the faults that Node reports together. */
function rootMessage(error: Error): string {
  let root: PlatformError = error;
  for (let depth = 0; depth < 5 && root.cause instanceof Error; depth++) root = root.cause;
  if (root.cause !== undefined && !(root.cause instanceof Error)) return String(root.cause);
  const faults = root.errors?.length ? root.errors : [root];
  const texts = faults.map(({ message, code }) => message || String(code ?? "")).filter((text) => text !== "");
  return texts.join(", ") || error.message;
}
