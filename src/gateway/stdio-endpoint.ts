import { randomUUID } from "node:crypto";
import { type JSONRPCMessage, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import type { McpServer } from "../registry/mcp-servers.ts";
import type { Children, ChildSession } from "./children.ts";
import type { Endpoint, EndpointRequest } from "./endpoint.ts";
import { isRequest, isResponse, type RpcId, type RpcMessage } from "./messages.ts";

/** Maximum messages, and their characters, that wait for the client's stream; the oldest are dropped first. */
const MAX_WAITING = 256;
const MAX_WAITING_LENGTH = 1_048_576;

/** Endpoint of an upstream server that is a command, for one session of a client. */
export class StdioEndpoint implements Endpoint {
  readonly #http: WebStandardStreamableHTTPServerTransport;
  readonly #session: ChildSession;
  /** Methods of unanswered requests by their ids, in order. */
  readonly #open = new Map<RpcId, string>();
  readonly #signals = new WeakMap<Request, AbortSignal>();
  /** Messages from before the client opened its stream, with their lengths. */
  #waiting: { readonly message: RpcMessage; readonly length: number }[] = [];
  #streams = 0;

  /** Sessions of one agent may share a child. */
  constructor(server: McpServer, agentId: string | null, children: Pick<Children, "open">) {
    this.#session = children.open(server, agentId, {
      receive: (message, related) => void this.#receive(message, related),
    });
    this.#http = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
    this.#http.onmessage = (message, extra) => {
      const signal = extra?.request === undefined ? undefined : this.#signals.get(extra.request);
      void this.#send(message as unknown as RpcMessage, signal);
    };
    void this.#http.start();
  }

  async fetch({ method, headers, body, signal }: EndpointRequest): Promise<Response> {
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    const request = new Request("http://gateway.invalid/mcp", init);
    this.#signals.set(request, signal);
    const response = await this.#http.handleRequest(request);
    if (method === "GET" && response.ok) this.#openStream(signal);
    return response;
  }

  async close(): Promise<void> {
    await this.#http.close().catch(() => undefined);
    await this.#session.close();
  }

  /** Begins the stream of the server's own messages with those that wait for it. */
  #openStream(signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#streams += 1;
    const release = this.#session.holdStream();
    const end = (): void => {
      this.#streams -= 1;
      release();
    };
    signal.addEventListener("abort", end, { once: true });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { message } of waiting) void this.#http.send(message as unknown as JSONRPCMessage);
  }

  async #send(message: RpcMessage, signal: AbortSignal | undefined): Promise<void> {
    if (isRequest(message)) this.#open.set(message.id, message.method);
    await this.#session.send(message, signal);
  }

  /** Passes a child's message on: a response on the stream of its request, any other message on an open stream. */
  async #receive(message: RpcMessage, related: RpcId | undefined): Promise<void> {
    if (isResponse(message)) this.#open.delete(message.id);
    const relatedRequestId = isResponse(message) ? undefined : (related ?? this.#streamFor());
    if (!isResponse(message) && relatedRequestId === undefined && this.#streams === 0) return this.#keep(message);
    const options = relatedRequestId === undefined ? {} : { relatedRequestId };
    // Nobody listens any more, but the session continues.
    await this.#http.send(message as unknown as JSONRPCMessage, options).catch(() => undefined);
  }

  /** Returns the request on whose stream a message of the child goes while the client has no other stream open. */
  #streamFor(): RpcId | undefined {
    if (this.#streams > 0) return undefined;
    // A client reads nothing but the response to its `initialize`.
    return [...this.#open].findLast(([, method]) => method !== "initialize")?.[0];
  }

  #keep(message: RpcMessage): void {
    this.#waiting.push({ message, length: JSON.stringify(message).length });
    let length = this.#waiting.reduce((sum, each) => sum + each.length, 0);
    while (this.#waiting.length > MAX_WAITING || length > MAX_WAITING_LENGTH)
      length -= this.#waiting.shift()?.length ?? 0;
  }
}
