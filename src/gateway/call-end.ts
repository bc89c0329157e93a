import type { JsonValue } from "@bufbuild/protobuf";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { createError, RPC_CODES, type RpcId, type RpcResponse } from "./messages.ts";

/** End of a call, as the log keeps it. The words of a server stay out of it: they may hold what the call was not to leave behind. */
export interface CallEnd {
  readonly status: "succeeded" | "failed" | "cancelled";
  /** Cause of a failure or a cancellation. */
  readonly error?: string;
}

/** End of a call that was allowed and then not sent. */
export const NOT_SENT: CallEnd = { status: "cancelled", error: "the call was not sent to its server" };
/** End of a call that a server has accepted and that goes on without a response. */
export const ACCEPTED: CallEnd = { status: "succeeded" };

/** Member of a fault's metadata with the value `false`: the server surely did not run the call. */
const RAN = "ran";

/** Marks a fault with which a request surely did not run at its server: it was never sent, or refused as a whole. */
export function asNotRun(error: unknown): ControlPlaneError {
  const { reason, message, metadata, cause } = controlPlaneErrorFrom(error);
  return new ControlPlaneError(reason, message, { ...metadata, [RAN]: "false" }, { cause });
}

/** Creates the response in place of one that came from a server and is lost here. */
export function lostResponse(id: RpcId, text: string): RpcResponse {
  return createError(id, RPC_CODES.server, text, faultData(false));
}

/** Returns the data of an error that the gateway gives in place of a server's response. */
export function faultData(isNotRun: boolean) {
  return { reason: "MCP_UPSTREAM_UNAVAILABLE", metadata: isNotRun ? { [RAN]: "false" } : {} };
}

/**
 * Returns how a call ended by the response that came for it; undefined for a call that goes on as a task, and for a response that the
 * gateway gave in place of the server, where the call may have run.
 */
export function endFromResponse({ result, error }: RpcResponse): CallEnd | undefined {
  if (error !== undefined) {
    const metadata = faultMetadata(error.data);
    if (metadata !== undefined) return metadata[RAN] === "false" ? notRun() : undefined;
    return { status: "failed", error: `the server answered with the JSON-RPC error ${error.code}` };
  }
  const type = ownValue(result ?? {}, "resultType") ?? "complete";
  if (type === "input_required") {
    const text = "the server asked for input, and did not run the call yet; with the input it is another call";
    return { status: "cancelled", error: text };
  }
  if (type !== "complete" || isJsonObject(ownValue(result ?? {}, "task"))) return undefined;
  if (ownValue(result ?? {}, "isError") === true)
    return { status: "failed", error: "the tool answered with `isError`" };
  return { status: "succeeded" };
}

/**
 * Returns how a call ended that went on as a task, by the response to a request about the task; undefined while it runs, for a task
 * that was cancelled, which may have run in part, and for an error, which may be one of the request.
 */
export function endFromTask(method: string, response: RpcResponse): CallEnd | undefined {
  const { result } = response;
  if (result === undefined) return undefined;
  if (method === "tasks/result") return endFromResponse(response);
  const status = ownValue(result, "status");
  if (status === "failed") return { status: "failed", error: "the server said that the task failed" };
  if (status !== "completed") return undefined;
  const inner = ownValue(result, "result");
  return endFromResponse({ ...response, result: inner !== undefined && isJsonObject(inner) ? inner : {} });
}

/** Returns how a call ended by the fault in place of a response; undefined if it may have run. */
export function endFromFault(thrown: unknown): CallEnd | undefined {
  return thrown instanceof ControlPlaneError && thrown.metadata[RAN] === "false" ? notRun() : undefined;
}

/** Returns how a call ended by an HTTP error without a message; undefined if it may have run, as behind a proxy that gave up. */
export function endFromStatus(status: number): CallEnd | undefined {
  if (status < 400 || status >= 500) return undefined;
  return { status: "failed", error: `the server refused the call with HTTP ${status}` };
}

const notRun = (): CallEnd => ({
  status: "failed",
  error: "the server could not be reached, or refused the request as a whole",
});

/** Returns the metadata of an error that a control plane gave; undefined for any other error. */
function faultMetadata(data: JsonValue | undefined): Readonly<Record<string, unknown>> | undefined {
  if (data === undefined || !isJsonObject(data)) return undefined;
  const [reason, metadata] = [ownValue(data, "reason"), ownValue(data, "metadata")];
  if (typeof reason !== "string" || !(reason in ErrorReason) || metadata === undefined) return undefined;
  return isJsonObject(metadata) ? metadata : undefined;
}

/** Codes of faults before a request is sent: no address, no connection in time, or a certificate that does not hold. */
const UNSENT_CODES =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|CERT_|ERR_TLS_CERT|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;
/** Calls of the system that fail before a request is sent. */
const UNSENT_CALLS: readonly unknown[] = ["connect", "getaddrinfo"];
const MAX_CAUSES = 8;

/** Tests whether a request over HTTP surely never left: there was no address or no connection for it. */
export function isUnsent(error: unknown): boolean {
  let cause = error;
  for (let depth = 0; depth < MAX_CAUSES && cause instanceof Error; depth += 1) {
    const { code, syscall, errors } = cause as NodeJS.ErrnoException & { readonly errors?: readonly unknown[] };
    if (UNSENT_CALLS.includes(syscall) || (code !== undefined && UNSENT_CODES.test(code))) return true;
    // Every address of a host was tried.
    if (errors !== undefined && errors.length > 0) return errors.every(isUnsent);
    cause = cause.cause;
  }
  return false;
}
