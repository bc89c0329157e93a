import { fromBinary } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { StatusObject } from "@grpc/grpc-js";
import type { InterceptStreamError } from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import {
  ControlPlaneRequestError,
  type RequestErrorCode,
  requestErrorCodeFrom,
  requestErrorFrom,
} from "../request-error.ts";

/** Refusals of the caller itself; any other end of a stream leaves its calls to be sent again. */
const REFUSALS: ReadonlySet<RequestErrorCode> = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED"]);

/** What the end of a stream means to the calls on it: the refusal of the caller, or UNAVAILABLE. */
export function streamFaultFrom(status: StatusObject): ControlPlaneRequestError {
  const fault = requestErrorFrom(connectErrorFrom(status));
  if (REFUSALS.has(fault.code)) return fault;
  return channelFault(`the stream ended: ${fault.message}`, fault);
}

/** What one failed request of a stream is told. */
export function replyFaultFrom({ code, reason, message }: InterceptStreamError): ControlPlaneRequestError {
  return new ControlPlaneRequestError(requestErrorCodeFrom(code), message, { reason });
}

/** The fault of calls whose channel does not answer for them any more. */
export function channelFault(message: string, cause?: unknown): ControlPlaneRequestError {
  return new ControlPlaneRequestError("UNAVAILABLE", message, { cause });
}

function connectErrorFrom({ code, details: message, metadata }: StatusObject): ConnectError {
  const error = new ConnectError(message, code as number);
  const [bytes] = metadata.get("grpc-status-details-bin");
  if (bytes !== undefined && typeof bytes !== "string") error.details = detailsFrom(bytes);
  return error;
}

function detailsFrom(bytes: Uint8Array): ConnectError["details"] {
  const { details } = fromBinary(StatusSchema, bytes);
  return details.map(({ typeUrl, value }) => ({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value }));
}
