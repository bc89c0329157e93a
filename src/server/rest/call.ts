import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod, Message } from "@bufbuild/protobuf";

/** One RPC that arrived over REST, ready to be executed. */
export interface RestCall {
  readonly method: DescMethod;
  readonly request: Message;
  /** The value of a request header by its name in any case; several values are joined by `, `. */
  header(name: string): string | undefined;
  /** True once the client went away before the response was complete. */
  readonly hasLeft: boolean;
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
export const watchClient = (response: ServerResponse): ClientWatch => new ResponseClient(response);

/** Builds the call for one HTTP request. */
export const restCall = (method: DescMethod, request: Message, http: IncomingMessage, client: ClientWatch): RestCall =>
  new HttpCall(method, request, http, client);

// Classes, since they are made for every request: of an object literal with getters the engine keeps a shape for each one
// made, with all that its getters see, until the next full collection.

class ResponseClient implements ClientWatch {
  gone: boolean;
  #controller: AbortController | undefined = undefined;

  constructor(response: ServerResponse) {
    this.gone = response.destroyed;
    response.once("close", () => {
      if (response.writableEnded) return;
      this.gone = true;
      this.#controller?.abort();
    });
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.gone) this.#controller.abort();
    return this.#controller.signal;
  }
}

class HttpCall implements RestCall {
  readonly method: DescMethod;
  readonly request: Message;
  readonly #http: IncomingMessage;
  readonly #client: ClientWatch;

  constructor(method: DescMethod, request: Message, http: IncomingMessage, client: ClientWatch) {
    this.method = method;
    this.request = request;
    this.#http = http;
    this.#client = client;
  }

  get hasLeft(): boolean {
    return this.#client.gone;
  }

  get signal(): AbortSignal {
    return this.#client.signal;
  }

  header(name: string): string | undefined {
    const value = this.#http.headers[name.toLowerCase()];
    return Array.isArray(value) ? value.join(", ") : value;
  }
}
