import { Code } from "@connectrpc/connect";
import { ErrorReason } from "../gen/agentcontrol/v1/error_reason_pb.js";

export { ErrorReason };

/** The `google.rpc.ErrorInfo.domain` of every reason of this service. */
export const ERROR_DOMAIN = "agentcontrol.v1";

/** One request field at fault. */
export interface FieldViolation {
  /** Path to the field in the request, snake_case, list items as `[0]`. */
  readonly field: string;
  /** Why the value is refused and what to change. */
  readonly description: string;
  /** A stable UPPER_SNAKE_CASE word. */
  readonly reason: string;
}

/** What a `ControlPlaneError` carries beside reason and message. */
export interface ControlPlaneErrorOptions {
  readonly cause?: unknown;
  /** The fields at fault, in the order of their paths. */
  readonly violations?: readonly FieldViolation[];
}

/**
 * The one error of the domain: a fault of the call or of the service, never an outcome such as `block`.
 * Promises: `message` is one line that is safe to show to the caller, and every value in it is also in `metadata`.
 */
export class ControlPlaneError extends Error {
  override readonly name = "ControlPlaneError";
  readonly reason: ErrorReason;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly FieldViolation[];

  constructor(
    reason: ErrorReason,
    message: string,
    metadata: Readonly<Record<string, string>> = {},
    options: ControlPlaneErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.metadata = metadata;
    this.violations = options.violations ?? [];
  }
}

/** Builds the error for one request field: INVALID_FIELD with the field and the reason. */
export function invalidField(field: string, description: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(
    ErrorReason.INVALID_FIELD,
    `\`${field}\` ${description}`,
    { field },
    { cause, violations: [{ field, description, reason: "INVALID_FIELD" }] },
  );
}

const UNAUTHENTICATED = [ErrorReason.KEY_MISSING, ErrorReason.KEY_INVALID];
const DENIED = [ErrorReason.ROLE_NOT_ALLOWED, ErrorReason.AGENT_NOT_ALLOWED, ErrorReason.WORKSPACE_NOT_ALLOWED];
const EXISTS = [
  ErrorReason.DEPARTMENT_EXISTS,
  ErrorReason.WORKSPACE_EXISTS,
  ErrorReason.MANDATE_EXISTS,
  ErrorReason.REQUEST_ID_REUSED,
];
const PRECONDITION = [
  ErrorReason.ESCALATION_RESOLVED,
  ErrorReason.MANDATE_ARCHIVED,
  ErrorReason.LAST_ADMIN_KEY,
  ErrorReason.DEPARTMENT_IN_USE,
  ErrorReason.AGENT_INACTIVE,
  ErrorReason.PARENT_GRANT_INACTIVE,
  ErrorReason.LLM_NOT_CONFIGURED,
  ErrorReason.REDACTION_KEY_DIFFERS,
];
const NOT_FOUND = [
  ErrorReason.AGENT_NOT_FOUND,
  ErrorReason.DEPARTMENT_NOT_FOUND,
  ErrorReason.TOOL_NOT_FOUND,
  ErrorReason.MANDATE_NOT_FOUND,
  ErrorReason.DECISION_NOT_FOUND,
  ErrorReason.ESCALATION_NOT_FOUND,
  ErrorReason.WORKSPACE_NOT_FOUND,
  ErrorReason.KEY_NOT_FOUND,
  ErrorReason.AUTHORITY_NOT_FOUND,
  ErrorReason.REVOCATION_NOT_FOUND,
  ErrorReason.INCIDENT_NOT_FOUND,
  ErrorReason.WEBHOOK_NOT_FOUND,
  ErrorReason.PERSONAL_VALUE_NOT_FOUND,
];
const INVALID = [
  ErrorReason.MALFORMED_JSON,
  ErrorReason.UNKNOWN_FIELD,
  ErrorReason.INVALID_FIELD,
  ErrorReason.DUPLICATE_FIELD,
  ErrorReason.BODY_TOO_DEEP,
  ErrorReason.UNSUPPORTED_MEDIA_TYPE,
  ErrorReason.NOT_ACCEPTABLE,
  ErrorReason.INVALID_PAGE_TOKEN,
  ErrorReason.MANDATE_INVALID,
  ErrorReason.SCHEMA_INVALID,
  ErrorReason.PASTE_NOT_RECOGNISED,
  ErrorReason.GRANT_TOO_WIDE,
  ErrorReason.TARGET_NOT_ALLOWED,
  ErrorReason.NOT_SCRUBBABLE,
];

/** The gRPC code of every reason. A reason that is missing here fails the completeness test. */
export const CODE_BY_REASON: ReadonlyMap<ErrorReason, Code> = new Map<ErrorReason, Code>([
  [ErrorReason.INTERNAL, Code.Internal],
  [ErrorReason.STORE_UNAVAILABLE, Code.Unavailable],
  [ErrorReason.SHUTTING_DOWN, Code.Unavailable],
  [ErrorReason.LLM_UNAVAILABLE, Code.Unavailable],
  [ErrorReason.DEADLINE_EXCEEDED, Code.DeadlineExceeded],
  [ErrorReason.CANCELLED, Code.Canceled],
  [ErrorReason.OVERLOADED, Code.ResourceExhausted],
  [ErrorReason.OUTSIDE_LOG, Code.OutOfRange],
  [ErrorReason.BODY_TOO_LARGE, Code.ResourceExhausted],
  [ErrorReason.ROUTE_NOT_FOUND, Code.Unimplemented],
  [ErrorReason.METHOD_NOT_ALLOWED, Code.Unimplemented],
  ...UNAUTHENTICATED.map((reason) => [reason, Code.Unauthenticated] as const),
  ...DENIED.map((reason) => [reason, Code.PermissionDenied] as const),
  ...EXISTS.map((reason) => [reason, Code.AlreadyExists] as const),
  ...PRECONDITION.map((reason) => [reason, Code.FailedPrecondition] as const),
  ...NOT_FOUND.map((reason) => [reason, Code.NotFound] as const),
  ...INVALID.map((reason) => [reason, Code.InvalidArgument] as const),
]);

const HTTP_BY_CODE: ReadonlyMap<Code, number> = new Map([
  [Code.Canceled, 499],
  [Code.Unknown, 500],
  [Code.InvalidArgument, 400],
  [Code.DeadlineExceeded, 504],
  [Code.NotFound, 404],
  [Code.AlreadyExists, 409],
  [Code.PermissionDenied, 403],
  [Code.ResourceExhausted, 429],
  [Code.FailedPrecondition, 400],
  [Code.Aborted, 409],
  [Code.OutOfRange, 400],
  [Code.Unimplemented, 501],
  [Code.Internal, 500],
  [Code.Unavailable, 503],
  [Code.DataLoss, 500],
  [Code.Unauthenticated, 401],
]);

const HTTP_BY_REASON: ReadonlyMap<ErrorReason, number> = new Map([
  [ErrorReason.BODY_TOO_LARGE, 413],
  [ErrorReason.ROUTE_NOT_FOUND, 404],
  [ErrorReason.METHOD_NOT_ALLOWED, 405],
  [ErrorReason.UNSUPPORTED_MEDIA_TYPE, 415],
  [ErrorReason.NOT_ACCEPTABLE, 406],
  [ErrorReason.ESCALATION_RESOLVED, 409],
  [ErrorReason.LLM_UNAVAILABLE, 502],
]);

/** The gRPC code of a reason; INTERNAL for one that has none. */
export function codeFromReason(reason: ErrorReason): Code {
  return CODE_BY_REASON.get(reason) ?? Code.Internal;
}

/** The HTTP status of a reason: its own where HTTP knows a better word than the gRPC code, else the code's. */
export function httpStatusFromReason(reason: ErrorReason): number {
  return HTTP_BY_REASON.get(reason) ?? HTTP_BY_CODE.get(codeFromReason(reason)) ?? 500;
}

/** The gRPC code as the word of `google.rpc.Code`, such as `INVALID_ARGUMENT`. */
export function codeName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}

const UNKNOWN_FAULT = "the control plane failed; the cause is in its log under the request id";

/** Turns any thrown value into a `ControlPlaneError`; an unknown fault becomes INTERNAL with a fixed text. */
export function controlPlaneErrorFrom(error: unknown): ControlPlaneError {
  if (error instanceof ControlPlaneError) return error;
  return new ControlPlaneError(ErrorReason.INTERNAL, UNKNOWN_FAULT, {}, { cause: error });
}
