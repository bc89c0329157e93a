import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod, Message } from "@bufbuild/protobuf";

/** One RPC that arrived over REST, ready to be executed. */
export interface RestCall {
  readonly method: DescMethod;
  readonly request: Message;
  /** The value of a request header by its name in any case; several values are joined by `, `. */
  readonly header: (name: string) => string | undefined;
  /** Aborts when the client goes away before the response is complete. */
  readonly signal: AbortSignal;
}

/** Executes calls. A rejection becomes the error response. */
export interface RestDispatcher {
  unary(call: RestCall): Promise<Message>;
  /**
   * Starts a stream. An iterable that comes in a promise lets a refused call fail with an HTTP status of its own:
   * the response starts only when the promise is fulfilled. MUST end soon after `call.signal` aborts.
   */
  serverStream(call: RestCall): AsyncIterable<Message> | Promise<AsyncIterable<Message>>;
}

/** An error as a response: status, JSON body, and headers to add. */
export interface RestErrorBody {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Tells when the client of one response is gone. */
export interface ClientWatch {
  readonly gone: boolean;
  /** Made on first use; most calls never ask for it. */
  readonly signal: AbortSignal;
}

/** Watches the client of a response from now on. */
export function watchClient(response: ServerResponse): ClientWatch {
  let gone = response.destroyed;
  let controller: AbortController | undefined;
  response.once("close", () => {
    if (response.writableEnded) return;
    gone = true;
    controller?.abort();
  });
  return {
    get gone() {
      return gone;
    },
    get signal() {
      controller ??= new AbortController();
      if (gone) controller.abort();
      return controller.signal;
    },
  };
}

/** Builds the call for one HTTP request. */
export function restCall(method: DescMethod, message: Message, http: IncomingMessage, client: ClientWatch): RestCall {
  return {
    method,
    request: message,
    header(name) {
      const value = http.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(", ") : value;
    },
    get signal() {
      return client.signal;
    },
  };
}
