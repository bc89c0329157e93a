import { Code } from "@connectrpc/connect";
import { ErrorReason } from "../gen/agentcontrol/v1/error_reason_pb.js";

export { ErrorReason };

/** `google.rpc.ErrorInfo.domain` of all reasons of this service. */
export const ERROR_DOMAIN = "agentcontrol.v1";

/** One invalid request field. */
export interface FieldViolation {
  /** Path to the field in the request, snake_case, list items as `[0]`. */
  readonly field: string;
  /** States why the value is invalid and what to change. */
  readonly description: string;
  /** A stable UPPER_SNAKE_CASE identifier. */
  readonly reason: string;
}

/** Optional parts of a `ControlPlaneError`. */
export interface ControlPlaneErrorOptions {
  readonly cause?: unknown;
  /** The invalid fields, sorted by path. */
  readonly violations?: readonly FieldViolation[];
}

/**
 * The error class of the domain: a fault of the call or of the service, never an outcome such as `block`. `message` MUST be one
 * line that is safe to show to the caller, and every value in it MUST also be in `metadata`.
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

/** Creates the INVALID_FIELD error for one request field. */
export function invalidField(field: string, description: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(
    ErrorReason.INVALID_FIELD,
    `\`${field}\` ${description}`,
    { field },
    { cause, violations: [{ field, description, reason: "INVALID_FIELD" }] },
  );
}

/** Creates the error that lists every fault for which `what` does not compile. There MUST be at least one. */
export function doesNotCompile(
  reason: ErrorReason,
  what: string,
  faults: readonly { readonly path: string; readonly reason: string; readonly message: string }[],
): ControlPlaneError {
  const violations = faults.map(({ path, reason, message }) => ({ field: path, reason, description: message }));
  const [first] = violations;
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : "";
  const message = `the ${what} does not compile: \`${first?.field}\`: ${first?.description}${more}`;
  const metadata = {
    field: first?.field ?? "",
    rule_reason: first?.reason ?? "",
    violations: String(faults.length),
  };
  return new ControlPlaneError(reason, message, metadata, { violations });
}

/** Creates the error for an unknown id, which is the first value of `metadata`: no agent `agt_1`. */
export function notFound(
  reason: ErrorReason,
  noun: string,
  metadata: Readonly<Record<string, string>>,
): ControlPlaneError {
  const [id] = Object.values(metadata);
  return new ControlPlaneError(reason, `no ${noun} \`${id}\``, metadata);
}

/** Default seconds after which a caller may retry, by reason. Another replica may serve the call at once. */
const RETRY_AFTER_SECONDS: ReadonlyMap<ErrorReason, number> = new Map([
  [ErrorReason.SHUTTING_DOWN, 1],
  [ErrorReason.STORE_UNAVAILABLE, 1],
  [ErrorReason.OVERLOADED, 1],
  [ErrorReason.TOO_MANY_WRONG_KEYS, 1],
]);

/** Returns the seconds after which a caller may retry; undefined if a retry does not help. */
export function retryAfterSecondsOf({ reason, metadata }: ControlPlaneError): number | undefined {
  const seconds = metadata.retry_after_seconds;
  return seconds === undefined ? RETRY_AFTER_SECONDS.get(reason) : Number(seconds);
}

/** Refusal of a pot that workspaces share. */
export interface OverShare {
  readonly pot: string;
  readonly unit: string;
  readonly party: "workspace" | "agent" | "key";
  readonly held: number;
  readonly most: number;
  /** Change that makes room, as an imperative. */
  readonly advice: string;
  readonly retryAfterSeconds: number;
}

/** Creates OVERLOADED for a party that would hold more of a pot than its share. */
export function overShare(refusal: OverShare): ControlPlaneError {
  const { pot, unit, party, held, most, advice, retryAfterSeconds } = refusal;
  const message = `the ${party} holds ${held} ${unit} in this process, and its share is ${most} at the moment; ${advice}, or retry in ${retryAfterSeconds} s`;
  return new ControlPlaneError(ErrorReason.OVERLOADED, message, {
    pot,
    unit,
    party,
    held: String(held),
    most: String(most),
    retry_after_seconds: String(retryAfterSeconds),
  });
}

const REASONS_BY_CODE: readonly (readonly [Code, readonly ErrorReason[]])[] = [
  [
    Code.InvalidArgument,
    [
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
      ErrorReason.PLAN_INVALID,
      ErrorReason.TARGET_NOT_ALLOWED,
      ErrorReason.QUESTION_NOT_UNDERSTOOD,
      ErrorReason.NOT_SCRUBBABLE,
      ErrorReason.MALFORMED_REQUEST,
      ErrorReason.HEADERS_TOO_LARGE,
      ErrorReason.EXPECTATION_FAILED,
      ErrorReason.NOT_ALLOWED,
    ],
  ],
  [Code.Unauthenticated, [ErrorReason.KEY_MISSING, ErrorReason.KEY_INVALID]],
  [
    Code.PermissionDenied,
    [
      ErrorReason.ROLE_NOT_ALLOWED,
      ErrorReason.AGENT_NOT_ALLOWED,
      ErrorReason.WORKSPACE_NOT_ALLOWED,
      ErrorReason.FOUR_EYES,
      ErrorReason.NOT_AN_ASKER,
      ErrorReason.NOT_AN_APPROVER,
      ErrorReason.CLAIM_REFUSED,
      ErrorReason.CSRF_TOKEN_INVALID,
      ErrorReason.ORIGIN_NOT_ALLOWED,
      ErrorReason.SCOPE_MISSING,
      ErrorReason.PROMPT_FROM_OPERATOR,
      ErrorReason.OPERATOR_NEEDED,
    ],
  ],
  [
    Code.NotFound,
    [
      ErrorReason.PERSON_NOT_FOUND,
      ErrorReason.INVITE_INVALID,
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
      ErrorReason.NOTIFICATION_CHANNEL_NOT_FOUND,
      ErrorReason.MCP_SERVER_NOT_FOUND,
      ErrorReason.MCP_SESSION_NOT_FOUND,
      ErrorReason.MCP_TOOL_NOT_FOUND,
      ErrorReason.MCP_DEFINITION_NOT_FOUND,
      ErrorReason.SIGNING_KEY_NOT_FOUND,
      ErrorReason.PACK_NOT_FOUND,
      ErrorReason.MANDATE_VERSION_NOT_FOUND,
      ErrorReason.PROPOSAL_NOT_FOUND,
      ErrorReason.BACKTEST_NOT_FOUND,
      ErrorReason.LIST_NOT_FOUND,
      ErrorReason.APPROVER_GROUP_NOT_FOUND,
      ErrorReason.PERSONAL_VALUE_NOT_FOUND,
    ],
  ],
  [
    Code.AlreadyExists,
    [
      ErrorReason.PERSON_EXISTS,
      ErrorReason.DEPARTMENT_EXISTS,
      ErrorReason.WORKSPACE_EXISTS,
      ErrorReason.MANDATE_EXISTS,
      ErrorReason.MCP_SERVER_EXISTS,
      ErrorReason.REQUEST_ID_REUSED,
      ErrorReason.REQUEST_ID_EXPIRED,
      ErrorReason.OUTCOME_EXISTS,
      ErrorReason.ALREADY_CLAIMED,
      ErrorReason.SESSION_HAS_CONTRACT,
      ErrorReason.OBSERVATION_EXISTS,
    ],
  ],
  [
    Code.FailedPrecondition,
    [
      ErrorReason.PERSON_DEACTIVATED,
      ErrorReason.SESSION_ENDED,
      ErrorReason.ESCALATION_RESOLVED,
      ErrorReason.EDIT_BLOCKED,
      ErrorReason.MANDATE_ARCHIVED,
      ErrorReason.LAST_ADMIN_KEY,
      ErrorReason.DEPARTMENT_IN_USE,
      ErrorReason.AGENT_INACTIVE,
      ErrorReason.PARENT_GRANT_INACTIVE,
      ErrorReason.QUESTION_NEEDS_MODEL,
      ErrorReason.LLM_NOT_CONFIGURED,
      ErrorReason.NOTIFICATIONS_NOT_CONFIGURED,
      ErrorReason.ENCRYPTION_KEY_DIFFERS,
      ErrorReason.SIGNING_KEY_ACTIVE,
      ErrorReason.SIGNING_KEY_RETIRED,
      ErrorReason.PACK_CHANGED,
      ErrorReason.LIST_IN_USE,
      ErrorReason.LIST_CHANGED,
      ErrorReason.PROPOSAL_STALE,
      ErrorReason.PROPOSAL_ENDED,
      ErrorReason.PROPOSALS_FULL,
      ErrorReason.APPROVER_GROUP_IN_USE,
      ErrorReason.MCP_TOOL_CHANGED,
      ErrorReason.MCP_DEFINITION_CHANGED,
    ],
  ],
  [Code.OutOfRange, [ErrorReason.OUTSIDE_LOG]],
  [
    Code.ResourceExhausted,
    [
      ErrorReason.OVERLOADED,
      ErrorReason.BODY_TOO_LARGE,
      ErrorReason.TOO_MANY_WRONG_KEYS,
      ErrorReason.RATE_LIMITED,
      ErrorReason.TOO_MANY_SESSIONS,
    ],
  ],
  [Code.Canceled, [ErrorReason.CANCELLED]],
  [Code.DeadlineExceeded, [ErrorReason.DEADLINE_EXCEEDED, ErrorReason.REQUEST_TIMED_OUT]],
  [Code.Unimplemented, [ErrorReason.ROUTE_NOT_FOUND, ErrorReason.METHOD_NOT_ALLOWED]],
  [
    Code.Unavailable,
    [
      ErrorReason.STORE_UNAVAILABLE,
      ErrorReason.SHUTTING_DOWN,
      ErrorReason.LLM_UNAVAILABLE,
      ErrorReason.MCP_UPSTREAM_UNAVAILABLE,
      ErrorReason.IDENTITY_UNAVAILABLE,
    ],
  ],
  [Code.Internal, [ErrorReason.INTERNAL]],
  [Code.DataLoss, [ErrorReason.ENTRY_DAMAGED]],
];

/** The gRPC code of every reason. The completeness test fails if a reason is missing. */
export const CODE_BY_REASON: ReadonlyMap<ErrorReason, Code> = new Map(
  REASONS_BY_CODE.flatMap(([code, reasons]) => reasons.map((reason) => [reason, code] as const)),
);

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
  [ErrorReason.HEADERS_TOO_LARGE, 431],
  [ErrorReason.EXPECTATION_FAILED, 417],
  [ErrorReason.REQUEST_TIMED_OUT, 408],
  [ErrorReason.ROUTE_NOT_FOUND, 404],
  [ErrorReason.METHOD_NOT_ALLOWED, 405],
  [ErrorReason.UNSUPPORTED_MEDIA_TYPE, 415],
  [ErrorReason.NOT_ACCEPTABLE, 406],
  [ErrorReason.ESCALATION_RESOLVED, 409],
  [ErrorReason.PERSON_DEACTIVATED, 409],
  [ErrorReason.SESSION_ENDED, 409],
  [ErrorReason.PACK_CHANGED, 409],
  [ErrorReason.LIST_IN_USE, 409],
  [ErrorReason.LIST_CHANGED, 409],
  [ErrorReason.PROPOSAL_STALE, 409],
  [ErrorReason.PROPOSAL_ENDED, 409],
  [ErrorReason.PROPOSALS_FULL, 409],
  [ErrorReason.APPROVER_GROUP_IN_USE, 409],
  [ErrorReason.MCP_TOOL_CHANGED, 409],
  [ErrorReason.MCP_DEFINITION_CHANGED, 409],
  [ErrorReason.NOTIFICATIONS_NOT_CONFIGURED, 409],
  [ErrorReason.LLM_UNAVAILABLE, 502],
  [ErrorReason.MCP_UPSTREAM_UNAVAILABLE, 502],
]);

/** Returns the gRPC code of a reason; INTERNAL for an unknown one. */
export function codeFromReason(reason: ErrorReason): Code {
  return CODE_BY_REASON.get(reason) ?? Code.Internal;
}

/** Returns the HTTP status of a reason: a more specific one if HTTP has it, otherwise that of the gRPC code. */
export function httpStatusFromReason(reason: ErrorReason): number {
  return HTTP_BY_REASON.get(reason) ?? HTTP_BY_CODE.get(codeFromReason(reason)) ?? 500;
}

/** Returns the name of a gRPC code in `google.rpc.Code`, such as `INVALID_ARGUMENT`. */
export function codeName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}

const UNKNOWN_FAULT = "the control plane failed; the cause is in its log under the request id";

/** Converts any thrown value to a `ControlPlaneError`; an unknown fault becomes INTERNAL with a fixed text. */
export function controlPlaneErrorFrom(error: unknown): ControlPlaneError {
  if (error instanceof ControlPlaneError) return error;
  return new ControlPlaneError(ErrorReason.INTERNAL, UNKNOWN_FAULT, {}, { cause: error });
}
