import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import {
  ControlPlaneError,
  codeFromReason,
  codeName,
  controlPlaneErrorFrom,
  ERROR_DOMAIN,
  ErrorReason,
  httpStatusFromReason,
  retryAfterSecondsOf,
} from "../errors.ts";
import type { Wire } from "./incoming-call.ts";
import type { RequestBounds, ValueBounds } from "./request-bounds.ts";

/** An error as a REST response. */
interface RestError {
  readonly status: number;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
}

/** A detail of an error, as defined by AIP-193. */
export interface Detail {
  readonly desc: DescMessage;
  readonly value: MessageInitShape<DescMessage>;
}

/** Returns `ErrorInfo`, then `BadRequest` for invalid fields and `RetryInfo` if a retry helps. */
export function detailsOf(error: ControlPlaneError): readonly Detail[] {
  const info = { reason: ErrorReason[error.reason], domain: ERROR_DOMAIN, metadata: { ...error.metadata } };
  const details: Detail[] = [{ desc: ErrorInfoSchema, value: create(ErrorInfoSchema, info) }];
  if (error.violations.length > 0) {
    const fieldViolations = error.violations.map((violation) => ({ ...violation }));
    details.push({ desc: BadRequestSchema, value: create(BadRequestSchema, { fieldViolations }) });
  }
  const seconds = retryAfterSecondsOf(error);
  if (seconds !== undefined) {
    const retryDelay = { seconds: BigInt(seconds) };
    details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return details;
}

/**
 * Returns the error for Connect and gRPC-Web. An unknown fault becomes INTERNAL with the fixed text. `shorten` fits the error to
 * the protocol.
 */
export function connectErrorFrom(
  error: unknown,
  shorten = (fault: ControlPlaneError): ControlPlaneError => fault,
): ConnectError {
  const fault = shorten(controlPlaneErrorFrom(error));
  const { reason, message } = fault;
  return new ConnectError(message.toWellFormed(), codeFromReason(reason), undefined, [...detailsOf(fault)], fault);
}

/** Returns the error for REST, in the form of AIP-193. An unknown fault becomes INTERNAL with the fixed text. Never throws. */
export function errorBodyFrom(error: unknown): RestError {
  const fault = controlPlaneErrorFrom(error);
  const { reason, message, metadata, violations } = fault;
  const code = httpStatusFromReason(reason);
  const status = codeName(codeFromReason(reason));
  const info = { reason: ErrorReason[reason], domain: ERROR_DOMAIN, metadata };
  const details = violations.length > 0 ? [info, { field_violations: violations.map(plainViolation) }] : [info];
  const body = { ok: false, error: { code, status, message: message.toWellFormed(), details } };
  return { status: code, body, headers: headersOf(fault, code) };
}

function plainViolation({ field, description, reason }: ControlPlaneError["violations"][number]): object {
  return { field, description, reason };
}

function headersOf(error: ControlPlaneError, status: number): Record<string, string> {
  const headers: Record<string, string> = {};
  const { metadata } = error;
  const retryAfter = retryAfterSecondsOf(error);
  if (retryAfter !== undefined) headers["retry-after"] = String(retryAfter);
  if (status === 401) headers["www-authenticate"] = "Bearer";
  if (status === 405 && metadata.allow !== undefined) headers.allow = metadata.allow;
  return headers;
}

/** Returns the name of an error's `google.rpc.Code`; a label of the metrics. */
export function codeNameOf(error: ControlPlaneError): string {
  return codeName(codeFromReason(error.reason));
}

/** Creates DEADLINE_EXCEEDED. */
export function deadlineExceeded(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.DEADLINE_EXCEEDED, "the deadline passed before the call was done");
}

/** Creates CANCELLED, for a caller that disconnected. */
export function cancelled(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away");
}

/** Creates SHUTTING_DOWN, for a call that reaches a stopping service. */
export function shuttingDown(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.SHUTTING_DOWN, "the service is stopping; connect again");
}

/** Creates BODY_TOO_LARGE, for a request of more than `maxBytes` bytes. */
export function bodyTooLarge({ maxBytes, field }: Pick<RequestBounds, "maxBytes" | "field">): ControlPlaneError {
  return tooLarge(`is larger than ${maxBytes} bytes`, { max_bytes: String(maxBytes) }, field);
}

/** Creates BODY_TOO_LARGE, for a request of more than `maxValues` values. */
export function tooManyValues({ maxValues, field }: ValueBounds): ControlPlaneError {
  const text = `holds more than ${maxValues.toLocaleString("en")} values`;
  return tooLarge(`${text}; send less at once`, { max_values: String(maxValues) }, field);
}

/** Creates BODY_TOO_LARGE, which names the field that is to be shorter if the method has one that makes its requests large. */
function tooLarge(text: string, metadata: Record<string, string>, field: string | undefined): ControlPlaneError {
  const message = `the request ${text}`;
  if (field === undefined) return new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, message, metadata);
  const violations = [{ field, description: `makes a request that ${text}`, reason: "BODY_TOO_LARGE" }];
  return new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, message, { field, ...metadata }, { violations });
}

/** Creates BODY_TOO_DEEP, for a request that nests deeper than `maxDepth` JSON brackets. */
export function tooDeep(maxDepth: number): ControlPlaneError {
  const text = `the request nests deeper than ${maxDepth} levels`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_DEEP, text, { max_depth: String(maxDepth) });
}

/** Creates METHOD_NOT_ALLOWED for a known path; `allow` lists the methods that it serves. */
export function methodNotAllowed(method: string, allow: string): ControlPlaneError {
  const text = `\`${method}\` is not allowed here; allowed ${allow.includes(",") ? "are" : "is"} ${allow}`;
  return new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, text, { method, allow });
}

/** A failed call, as logged. */
export interface FailedCall {
  readonly requestId: string;
  /** `package.Service/Method`. */
  readonly method: string;
  readonly wire: Wire;
  /** Key of the call; MUST NOT be logged. */
  readonly key: string | undefined;
}

/** Maximum number of causes logged. */
const MAX_CAUSES = 5;
const FAULTS: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.INTERNAL,
  ErrorReason.STORE_UNAVAILABLE,
  ErrorReason.ENTRY_DAMAGED,
]);

/** Watch for outages of the database. */
export interface OutageReport {
  /** Resolves with true when the database is away, which is then logged once for all. */
  suspect(reason: string): Promise<boolean>;
}

/**
 * Returns the error for the caller. Logs a fault of the service at level `error`, with cause and request id; an unknown fault
 * becomes INTERNAL with the fixed text and the request id in its metadata. During an outage of the database its faults are left to
 * `outage`, and logged at level `debug`.
 */
export function reportFault(
  log: Logger,
  error: unknown,
  call: FailedCall,
  outage?: OutageReport | undefined,
): ControlPlaneError {
  const fault = controlPlaneErrorFrom(error);
  if (!FAULTS.has(fault.reason)) return fault;
  const { requestId, method, wire, key } = call;
  const causes = causesOf(fault.cause ?? fault, key);
  const details = { requestId, method, wire, reason: ErrorReason[fault.reason], causes };
  if (outage === undefined || fault.reason !== ErrorReason.STORE_UNAVAILABLE) log.error(details, "call failed");
  else {
    void outage.suspect(firstLineOf(causes)).then((isAway) => log[isAway ? "debug" : "error"](details, "call failed"));
  }
  const metadata = { ...fault.metadata, request_id: requestId };
  return new ControlPlaneError(fault.reason, fault.message, metadata, { cause: fault.cause });
}

/**
 * Keeps the process serving after an unhandled exception or rejection, and logs it. A fault on one path must not end the service
 * for every workspace.
 */
export function surviveUncaught(log: Logger): void {
  for (const event of ["uncaughtException", "unhandledRejection"] as const) {
    process.on(event, (error: unknown) => log.error({ event, causes: causesOf(error, undefined) }, "uncaught fault"));
  }
}

const firstLineOf = ([text = ""]: readonly string[]): string => text.split("\n")[0] ?? "";

// Only text is logged: the properties of foreign errors may hold requests with their headers.
function causesOf(error: unknown, key: string | undefined): readonly string[] {
  const texts: string[] = [];
  for (let cause = error; cause !== undefined && texts.length < MAX_CAUSES; ) {
    texts.push(withoutKey(textOf(cause), key));
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return texts;
}

function textOf(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? `${cause.name}: ${cause.message}`) : String(cause);
}

function withoutKey(text: string, key: string | undefined): string {
  return key === undefined || key === "" ? text : text.replaceAll(key, "***");
}
