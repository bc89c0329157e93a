import { ControlPlaneError, ErrorReason } from "../errors.ts";

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
