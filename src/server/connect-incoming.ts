import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { type Framing, single } from "./connect-framing.ts";
import type { IncomingCall } from "./incoming.ts";

/** One HTTP request as the listener saw it. */
export interface HttpArrival {
  /** `performance.now()` when the request was seen, in milliseconds. */
  readonly receivedAt: number;
  readonly requestId: string;
}

/** The request that a call came in. */
export interface HttpExchange {
  readonly framing: Framing;
  readonly arrival: HttpArrival;
  readonly request: IncomingMessage;
}

/** A call of these protocols as the pipeline sees it. */
export class HttpIncoming implements IncomingCall {
  readonly wire: IncomingCall["wire"];
  readonly receivedAt: number;
  readonly requestId: string;
  readonly signal: AbortSignal;
  readonly deadlineMs: number | undefined;
  readonly #headers: IncomingHttpHeaders;

  constructor({ framing, arrival, request }: HttpExchange, signal: AbortSignal, deadlineMs?: number) {
    this.wire = framing.wire;
    this.receivedAt = arrival.receivedAt;
    this.requestId = arrival.requestId;
    this.signal = signal;
    this.deadlineMs = deadlineMs;
    this.#headers = request.headers;
  }

  get hasLeft(): boolean {
    return this.signal.aborted;
  }

  header(name: string): string | undefined {
    return single(this.#headers[name]);
  }
}
