import { type ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import type { ControlPlaneError } from "../errors.ts";
import { grpcStatusFrom, hasStatusDetails } from "./error-mapping.ts";
import { bodyTooLarge, deadlineExceeded } from "./refusals.ts";

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
