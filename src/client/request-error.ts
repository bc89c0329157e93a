import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.js";

/** The words of `google.rpc.Code`. */
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

/** One request field at fault. */
export interface RequestFieldViolation {
  /** Path to the field in the request, snake_case. */
  readonly field: string;
  /** Why the value is refused and what to change. */
  readonly description: string;
  /** A stable UPPER_SNAKE_CASE word. */
  readonly reason: string;
}

/** What a `ControlPlaneRequestError` carries beside code and message. */
export interface RequestErrorDetails {
  readonly reason?: string | null;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly violations?: readonly RequestFieldViolation[];
  readonly cause?: unknown;
}

/** A call that the control plane refused or that did not reach it. Nothing was decided, or the answer was lost. */
export class ControlPlaneRequestError extends Error {
  override readonly name = "ControlPlaneRequestError";
  readonly code: RequestErrorCode;
  /** The stable word of the fault, such as `AGENT_NOT_FOUND`; null when the fault did not come from the control plane. */
  readonly reason: string | null;
  /** The values that the message mentions, by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Every request field at fault. */
  readonly violations: readonly RequestFieldViolation[];

  constructor(code: RequestErrorCode, message: string, details: RequestErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.reason = details.reason ?? null;
    this.metadata = details.metadata ?? {};
    this.violations = details.violations ?? [];
  }
}

const WORDS: ReadonlyMap<number, RequestErrorCode> = new Map<number, RequestErrorCode>([
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

/** The word of a gRPC code; `UNKNOWN` for a number that is none. */
export function requestErrorCodeFrom(code: number): RequestErrorCode {
  return WORDS.get(code) ?? "UNKNOWN";
}

/** Turns what a Connect call rejected with into a `ControlPlaneRequestError`, with reason, metadata and violations. */
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

/** Whether the fault means that no answer came: the control plane is away, or the way to it is. */
export function isUnreachable({ code }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || code === "DEADLINE_EXCEEDED";
}

/** Whether the same call, with the same `request_id`, may succeed a little later. */
export function isTransient({ code, reason }: ControlPlaneRequestError): boolean {
  return code === "UNAVAILABLE" || reason === "OVERLOADED";
}

/** Transports report a connection that failed or broke with these codes, and without our details. */
function isBroken({ code, cause }: ConnectError): boolean {
  return code === Code.Aborted || code === Code.Unavailable || (code === Code.Unknown && cause !== undefined);
}

function unreachable(fault: ConnectError): ControlPlaneRequestError {
  const text = `the control plane did not answer: ${rootMessage(fault)}`;
  return new ControlPlaneRequestError("UNAVAILABLE", text, { cause: fault });
}

/** Fetch says only that it failed; the cause says why. */
function rootMessage(error: Error): string {
  let root: unknown = error;
  for (let depth = 0; depth < 5 && root instanceof Error && root.cause !== undefined; depth++) root = root.cause;
  const text = root instanceof Error ? root.message || (root as { code?: string }).code : String(root);
  return text || error.message;
}
