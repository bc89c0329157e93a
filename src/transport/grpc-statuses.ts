import { type ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { grpcStatusFrom, hasStatusDetails } from "./error-mapping.ts";
import { deadlineExceeded } from "./live-call.ts";

/**
 * Gives our reasons to the statuses that grpc-js makes itself before or beside a handler: a request that is too large and a
 * deadline that passed. An interceptor around the call never sees those, so the call's own `sendStatus` is wrapped.
 */
export function createStatusReasons(maxBodyBytes: number): ServerInterceptor {
  return (_method, call) => {
    const send = call.sendStatus;
    call.sendStatus = function sendStatus(this: ServerInterceptingCall, bare) {
      const fault = hasStatusDetails(bare.metadata) ? undefined : faultOf(bare, maxBodyBytes);
      send.call(this, fault === undefined ? bare : grpcStatusFrom(fault));
    };
    return call as ServerInterceptingCall;
  };
}

function faultOf(
  { code, details }: Parameters<ServerInterceptingCall["sendStatus"]>[0],
  maxBodyBytes: number,
): ControlPlaneError | undefined {
  if (code === status.DEADLINE_EXCEEDED) return deadlineExceeded();
  if (code === status.RESOURCE_EXHAUSTED && /larger than/.test(details ?? "")) return bodyTooLarge(maxBodyBytes);
  return undefined;
}

/** The error for a request of more than `maxBytes` bytes. */
export function bodyTooLarge(maxBytes: number): ControlPlaneError {
  const text = `the request is larger than ${maxBytes} bytes`;
  return new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, text, { max_bytes: String(maxBytes) });
}
