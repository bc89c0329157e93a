import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../../gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import {
  ControlPlaneError,
  codeFromReason,
  codeName,
  controlPlaneErrorFrom,
  ERROR_DOMAIN,
  ErrorReason,
  httpStatusFromReason,
} from "../errors.ts";
import type { Wire } from "./call-context.ts";

const STATUS_DETAILS = "grpc-status-details-bin";

/** Seconds after which a caller may try again, by reason; a replica that stops or is full has others beside it. */
const RETRY_AFTER_SECONDS: ReadonlyMap<ErrorReason, number> = new Map([
  [ErrorReason.SHUTTING_DOWN, 1],
  [ErrorReason.STORE_UNAVAILABLE, 1],
  [ErrorReason.OVERLOADED, 1],
]);

/** An error as a REST response. */
interface RestError {
  readonly status: number;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
}

interface Detail {
  readonly desc: DescMessage;
  readonly value: MessageInitShape<DescMessage>;
}

/** `ErrorInfo` first, then `BadRequest` where fields are at fault, and `RetryInfo` where waiting helps. */
function detailsOf(error: ControlPlaneError): readonly Detail[] {
  const info = { reason: ErrorReason[error.reason], domain: ERROR_DOMAIN, metadata: { ...error.metadata } };
  const details: Detail[] = [{ desc: ErrorInfoSchema, value: create(ErrorInfoSchema, info) }];
  if (error.violations.length > 0) {
    const fieldViolations = error.violations.map((violation) => ({ ...violation }));
    details.push({ desc: BadRequestSchema, value: create(BadRequestSchema, { fieldViolations }) });
  }
  const seconds = RETRY_AFTER_SECONDS.get(error.reason);
  if (seconds !== undefined) {
    const retryDelay = { seconds: BigInt(seconds) };
    details.push({ desc: RetryInfoSchema, value: create(RetryInfoSchema, { retryDelay }) });
  }
  return details;
}

/** The error as Connect and gRPC-Web send it. An unknown fault becomes INTERNAL with the fixed text. */
export function connectErrorFrom(error: unknown): ConnectError {
  const fault = controlPlaneErrorFrom(error);
  const { reason, message } = fault;
  return new ConnectError(message.toWellFormed(), codeFromReason(reason), undefined, [...detailsOf(fault)], fault);
}

/** The error as grpc-js sends it, with `google.rpc.Status` in `grpc-status-details-bin`. An unknown fault becomes INTERNAL with the fixed text. */
export function grpcStatusFrom(error: unknown): StatusObject & { metadata: Metadata } {
  const fault = controlPlaneErrorFrom(error);
  const code = codeFromReason(fault.reason);
  // grpc-js writes the message through encodeURI, which throws on half a surrogate pair.
  const message = fault.message.toWellFormed();
  const details = detailsOf(fault).map(({ desc, value }) => anyPack(desc, create(desc, value)));
  const status = toBinary(StatusSchema, create(StatusSchema, { code, message, details }));
  const metadata = new Metadata();
  metadata.set(STATUS_DETAILS, Buffer.from(status));
  return { code: code as number, details: message, metadata };
}

/** True for a gRPC status that carries our details already. */
export function hasStatusDetails(metadata: Metadata | null | undefined): boolean {
  return (metadata?.get(STATUS_DETAILS).length ?? 0) > 0;
}

/** The error as REST sends it (AIP-193 inside). An unknown fault becomes INTERNAL with the fixed text. Never throws. */
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

function headersOf({ reason, metadata }: ControlPlaneError, status: number): Record<string, string> {
  const headers: Record<string, string> = {};
  const retryAfter = RETRY_AFTER_SECONDS.get(reason);
  if (retryAfter !== undefined) headers["retry-after"] = String(retryAfter);
  if (status === 401) headers["www-authenticate"] = "Bearer";
  if (status === 405 && metadata.allow !== undefined) headers.allow = metadata.allow;
  return headers;
}

/** The code of an error as the word of `google.rpc.Code`; a label of the metrics. */
export function codeNameOf(error: ControlPlaneError): string {
  return codeName(codeFromReason(error.reason));
}

/** The error of a call whose deadline passed. */
export function deadlineExceeded(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.DEADLINE_EXCEEDED, "the deadline passed before the call was done");
}

/** The error of a call whose caller went away. */
export function cancelled(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.CANCELLED, "the caller went away");
}

/** The error of a call that meets a stopping service. */
export function shuttingDown(): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.SHUTTING_DOWN, "the service is stopping; connect again");
}

/** The error for a request of more than `maxBytes` bytes. */
export function bodyTooLarge(maxBytes: number): ControlPlaneError {
  const text = `the request is larger than ${maxBytes} bytes`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, text, { max_bytes: String(maxBytes) });
}

/** The error for a request that nests deeper than `maxDepth` JSON brackets. */
export function tooDeep(maxDepth: number): ControlPlaneError {
  const text = `the request nests deeper than ${maxDepth} levels`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_DEEP, text, { max_depth: String(maxDepth) });
}

/** The error for a path and an HTTP method that do not go together; `allow` lists those that do. */
export function methodNotAllowed(method: string, allow: string): ControlPlaneError {
  const text = `\`${method}\` is not allowed here; allowed ${allow.includes(",") ? "are" : "is"} ${allow}`;
  return new ControlPlaneError(ErrorReason.METHOD_NOT_ALLOWED, text, { method, allow });
}

/** A call as the log names it when it failed. */
export interface FailedCall {
  readonly requestId: string;
  /** `package.Service/Method`. */
  readonly method: string;
  readonly wire: Wire;
  /** The key that came with the call; MUST NOT be logged. */
  readonly key: string | undefined;
}

/** Longest chain of causes that is logged. */
const MAX_CAUSES = 5;
const FAULTS: ReadonlySet<ErrorReason> = new Set([ErrorReason.INTERNAL, ErrorReason.STORE_UNAVAILABLE]);

/**
 * Returns the error for the caller. A fault of the service is logged at level `error` with its cause under the request id;
 * an unknown one becomes INTERNAL with the fixed text and the request id in its metadata.
 */
export function reportFault(log: Logger, error: unknown, call: FailedCall): ControlPlaneError {
  const fault = controlPlaneErrorFrom(error);
  if (!FAULTS.has(fault.reason)) return fault;
  const { requestId, method, wire, key } = call;
  const causes = causesOf(fault.cause ?? fault, key);
  log.error({ requestId, method, wire, reason: ErrorReason[fault.reason], causes }, "call failed");
  const metadata = { ...fault.metadata, request_id: requestId };
  return new ControlPlaneError(fault.reason, fault.message, metadata, { cause: fault.cause });
}

// Only text is logged: the own properties of foreign errors may hold requests with their headers.
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
