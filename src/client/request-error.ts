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
  readonly cause?: unknown;
}

/** A call that the control plane refused or that did not reach it. Nothing was decided, or the response was lost. */
export class ControlPlaneRequestError extends Error {
  override readonly name = "ControlPlaneRequestError";
  readonly code: RequestErrorCode;
  /** Stable identifier of the fault, such as `AGENT_NOT_FOUND`; null when it did not come from the control plane. */
  readonly reason: string | null;
  /** The values in the message, by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The invalid request fields. */
  readonly violations: readonly RequestFieldViolation[];

  constructor(code: RequestErrorCode, message: string, details: RequestErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.reason = details.reason ?? null;
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
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
  const violations = fault
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations)
    .map(({ field, description, reason }) => ({ field, description, reason }));
  return new ControlPlaneRequestError(requestErrorCodeFrom(fault.code), fault.rawMessage, {
    reason: info?.reason ?? null,
    metadata: info?.metadata ?? {},
    violations,
    cause: fault,
  });
}

/** Tests for a fault that means there was no response: the control plane or the connection to it is down. */
export function isUnreachable({ code }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}

/** Tests for a fault after which the same call, with the same `request_id`, may succeed a little later. */
export function isTransient({ code, reason }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || reason === "OVERLOADED";
}

/** Tests for the codes with which transports report a failed or broken connection. Such errors lack our details. */
function isBroken({ code, cause }: ConnectError): boolean {
  return code === Code.Aborted || code === Code.Unavailable || (code === Code.Unknown && cause !== undefined);
}

function unreachable(fault: ConnectError): ControlPlaneRequestError {
  const text = `the control plane did not answer: ${rootMessage(fault)}`;
  return new ControlPlaneRequestError("UNAVAILABLE", text, { cause: fault });
}

/** Returns the innermost cause: `fetch` itself reports only that it failed. */
function rootMessage(error: Error): string {
  let root: unknown = error;
  for (let depth = 0; depth < 5 && root instanceof Error && root.cause !== undefined; depth++) root = root.cause;
  const text = root instanceof Error ? root.message || (root as { code?: string }).code : String(root);
  return text || error.message;
}
