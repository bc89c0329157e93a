import { randomUUID } from "node:crypto";
import { type JSONRPCMessage, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import type { SharedPot } from "../async/shared-pot.ts";
import type { McpServer } from "../registry/mcp-servers.ts";
import { sizeOfMessage } from "../server/answer-size.ts";
import { lostResponse } from "./call-end.ts";
import type { Children, ChildSession } from "./children.ts";
import type { Endpoint, EndpointRequest } from "./endpoint.ts";
import { isRequest, isResponse, type RpcId, type RpcMessage, type RpcResponse } from "./messages.ts";
import { Unread } from "./unread.ts";

/** Maximum messages, and their characters, that wait for the client's stream; the oldest are dropped first. */
const MAX_WAITING = 256;
const MAX_WAITING_LENGTH = 1_048_576;

/** A request of the client. */
interface ClientRequest {
  readonly signal: AbortSignal;
  /** Messages that its response holds. */
  readonly unread: Unread;
  readonly aside: EndpointRequest["aside"];
}

/** An unanswered request, and the one of HTTP that brought it. */
interface OpenRequest {
  readonly method: string;
  readonly asked: ClientRequest | undefined;
}

/** Endpoint of an upstream server that is a command, for one session of a client. */
export class StdioEndpoint implements Endpoint {
  readonly #http: WebStandardStreamableHTTPServerTransport;
  readonly #session: ChildSession;
  /** Unanswered requests by their ids, in order. */
  readonly #open = new Map<RpcId, OpenRequest>();
  readonly #requests = new WeakMap<Request, ClientRequest>();
  readonly #openUnread: () => Unread;
  /** Messages from before the client opened its stream, with their lengths. */
  #waiting: { readonly message: RpcMessage; readonly length: number }[] = [];
  #streams = 0;
  /** Messages that the client's stream holds. */
  #unread: Unread;

  /** Sessions of one agent may share a child. `answers` is the pot of the bytes of servers' messages. */
  constructor(server: McpServer, agentId: string | null, children: Pick<Children, "open">, answers: SharedPot) {
    this.#openUnread = () => new Unread(answers.open({ workspaceId: server.workspaceId, agentId }));
    this.#unread = this.#openUnread();
    this.#session = children.open(server, agentId, {
      receive: (message, related) => void this.#receive(message, related),
    });
    this.#http = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
    this.#http.onmessage = (message, extra) => {
      const asked = extra?.request === undefined ? undefined : this.#requests.get(extra.request);
      void this.#send(message as unknown as RpcMessage, asked);
    };
    void this.#http.start();
  }

  async fetch({ method, headers, body, signal, aside }: EndpointRequest): Promise<Response> {
    const init = { method, headers, signal, ...(body === undefined ? {} : { body }) };
    const request = new Request("http://gateway.invalid/mcp", init);
    const unread = this.#openUnread();
    this.#requests.set(request, { signal, unread, aside });
    const response = await this.#http.handleRequest(request);
    if (method === "GET" && response.ok) this.#openStream(signal, unread);
    return unread.of(response);
  }

  async close(): Promise<void> {
    await this.#http.close().catch(() => undefined);
    await this.#session.close();
    this.#unread.release();
  }

  /** Begins the stream of the server's own messages with those that wait for it. */
  #openStream(signal: AbortSignal, unread: Unread): void {
    if (signal.aborted) return;
    this.#unread.release();
    this.#unread = unread;
    this.#streams += 1;
    const release = this.#session.holdStream();
    const end = (): void => {
      this.#streams -= 1;
      if (this.#unread === unread) this.#unread = this.#openUnread();
      release();
    };
    signal.addEventListener("abort", end, { once: true });
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { message } of waiting) void this.#receive(message, undefined);
  }

  async #send(message: RpcMessage, asked: ClientRequest | undefined): Promise<void> {
    if (isRequest(message)) this.#open.set(message.id, { method: message.method, asked });
    await this.#session.send(message, asked?.signal);
  }

  /** Passes a child's message on: a response on the stream of its request, any other message on an open stream. */
  async #receive(message: RpcMessage, related: RpcId | undefined): Promise<void> {
    const relatedRequestId = isResponse(message) ? undefined : (related ?? this.#streamFor());
    if (!isResponse(message) && relatedRequestId === undefined && this.#streams === 0) return this.#keep(message);
    const options = relatedRequestId === undefined ? {} : { relatedRequestId };
    const shown = this.#counted(message, isResponse(message) ? message.id : relatedRequestId);
    if (shown === undefined) return;
    // The request is closed at once, so that no later message goes on its stream.
    const sent = isResponse(shown) ? await withoutAside(shown, this.#taken(shown.id)) : shown;
    // Nobody listens any more, but the session continues.
    await this.#http.send(sent as unknown as JSONRPCMessage, options).catch(() => undefined);
  }

  /** Forgets a request that is answered. */
  #taken(id: RpcId): OpenRequest | undefined {
    const open = this.#open.get(id);
    this.#open.delete(id);
    return open;
  }

  /**
   * Counts a message among those that the stream of a request, or the client's own, holds. Returns the message to send: in place of a
   * response without room an error, and undefined for any other message without room.
   */
  #counted(message: RpcMessage, id: RpcId | undefined | null): RpcMessage | undefined {
    const asked = id === undefined || id === null ? undefined : this.#open.get(id);
    const unread = asked === undefined ? this.#unread : asked.asked?.unread;
    if (unread === undefined || unread.add(sizeOfMessage(message))) return message;
    if (!isResponse(message)) return undefined;
    const text =
      "the answer has no room: its workspace or agent holds its share of answers; read them, and ask for less at once";
    return lostResponse(message.id, `${text}. The request may have taken effect.`);
  }

  /** Returns the request on whose stream a message of the child goes while the client has no other stream open. */
  #streamFor(): RpcId | undefined {
    if (this.#streams > 0) return undefined;
    // A client reads nothing but the response to its `initialize`.
    return [...this.#open].findLast(([, { method }]) => method !== "initialize")?.[0];
  }

  #keep(message: RpcMessage): void {
    this.#waiting.push({ message, length: sizeOfMessage(message) });
    let length = this.#waiting.reduce((sum, each) => sum + each.length, 0);
    const drop = (): void => {
      length -= this.#waiting.shift()?.length ?? 0;
    };
    while (this.#waiting.length > MAX_WAITING || length > MAX_WAITING_LENGTH) drop();
    while (!this.#unread.set(length)) drop();
  }
}

/** Returns a response without the members that its caller gets beside it. */
async function withoutAside(response: RpcResponse, open: OpenRequest | undefined): Promise<RpcResponse> {
  const aside = open?.asked?.aside;
  if (aside === undefined || response.result === undefined) return response;
  return { ...response, result: await aside.take(response.result) };
}
