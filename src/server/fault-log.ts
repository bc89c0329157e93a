import type { Logger } from "pino";
import { ControlPlaneError, controlPlaneErrorFrom, ErrorReason } from "../errors.ts";
import type { Wire } from "./incoming.ts";

/** What the log says of a call that failed. */
export interface FailedCall {
  readonly requestId: string;
  /** `package.Service/Method`. */
  readonly method: string;
  readonly wire: Wire;
  /** The key that came with the call; MUST NOT be logged. */
  readonly key: string | undefined;
}

/** Turns what a call failed with into what its caller is told. */
export interface FaultLog {
  /**
   * Gives back the error for the caller. A fault of the service is logged with its cause under the request id;
   * an unknown one becomes INTERNAL with the fixed text and the request id in its metadata.
   */
  report(error: unknown, call: FailedCall): ControlPlaneError;
}

/** Longest chain of causes that is logged. */
const MAX_CAUSES = 5;
const FAULTS: ReadonlySet<ErrorReason> = new Set([ErrorReason.INTERNAL, ErrorReason.STORE_UNAVAILABLE]);

/** Creates a fault log that writes to `log` at level `error`. */
export function createFaultLog(log: Logger): FaultLog {
  return {
    report(error, call) {
      const fault = controlPlaneErrorFrom(error);
      if (!FAULTS.has(fault.reason)) return fault;
      const { requestId, method, wire, key } = call;
      const causes = causesOf(fault.cause ?? fault, key);
      log.error({ requestId, method, wire, reason: ErrorReason[fault.reason], causes }, "call failed");
      const metadata = { ...fault.metadata, request_id: requestId };
      return new ControlPlaneError(fault.reason, fault.message, metadata, { cause: fault.cause });
    },
  };
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
