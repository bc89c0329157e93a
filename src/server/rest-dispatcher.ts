import { type IncomingCall, REQUEST_ID_HEADER, requestIdFrom, timeoutFromHeader } from "./incoming.ts";
import type { Pipeline } from "./pipeline.ts";
import type { RestCall, RestDispatcher } from "./rest/call.ts";

/** The header by which a REST caller gives its call a deadline, in whole milliseconds. */
export const REQUEST_TIMEOUT_HEADER = "x-request-timeout-ms";

/** A REST call as the pipeline sees it; its signal is asked for only when the service function does. */
class RestIncoming implements IncomingCall {
  readonly wire = "rest";
  readonly receivedAt = performance.now();
  readonly requestId: string;
  deadlineMs: number | undefined = undefined;
  readonly #call: RestCall;

  constructor(call: RestCall) {
    this.#call = call;
    this.requestId = requestIdFrom(call.header(REQUEST_ID_HEADER));
  }

  get hasLeft(): boolean {
    return this.#call.hasLeft;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  header(name: string): string | undefined {
    return this.#call.header(name);
  }
}

/** Executes REST calls through the pipeline, with the deadline of `X-Request-Timeout-Ms`; one that is no number is INVALID_FIELD. */
export function createRestDispatcher(pipeline: Pipeline): RestDispatcher {
  const incomingFrom = (call: RestCall): RestIncoming => {
    const incoming = new RestIncoming(call);
    try {
      incoming.deadlineMs = timeoutFromHeader(REQUEST_TIMEOUT_HEADER, call.header(REQUEST_TIMEOUT_HEADER));
    } catch (error) {
      throw pipeline.refuse(call.method, incoming, error);
    }
    return incoming;
  };
  return {
    unary: async (call) => pipeline.unary(call.method, call.request, incomingFrom(call)),
    serverStream: async (call) => pipeline.serverStream(call.method, call.request, incomingFrom(call)),
  };
}
