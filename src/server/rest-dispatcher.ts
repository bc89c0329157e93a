import { type IncomingCall, onAbort, REQUEST_ID_HEADER, requestIdFrom, timeoutFromHeader } from "./call-context.ts";
import type { Pipeline } from "./pipeline.ts";
import type { RestCall, RestDispatcher } from "./rest/call.ts";

/** The header by which a REST caller gives its call a deadline, in whole milliseconds. */
export const REQUEST_TIMEOUT_HEADER = "x-request-timeout-ms";

function incomingFrom(call: RestCall): IncomingCall {
  return {
    wire: "rest",
    receivedAt: performance.now(),
    requestId: requestIdFrom(call.header(REQUEST_ID_HEADER)),
    header: (name) => call.header(name),
    timeoutMs: () => timeoutFromHeader(REQUEST_TIMEOUT_HEADER, call.header(REQUEST_TIMEOUT_HEADER)),
    onLeave: (listener) => onAbort(call.signal, listener),
  };
}

/** Executes REST calls through the pipeline, with the deadline of `X-Request-Timeout-Ms`. */
export function createRestDispatcher(pipeline: Pipeline): RestDispatcher {
  return {
    async unary(call) {
      const admitted = await pipeline.admit(call.method, incomingFrom(call));
      return pipeline.unary(admitted, () => call.request);
    },
    async serverStream(call) {
      const admitted = await pipeline.admit(call.method, incomingFrom(call));
      return pipeline.serverStream(admitted, () => call.request);
    },
  };
}
