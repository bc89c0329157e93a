import { type EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";

/** Certificate and key of a listener, in PEM. */
export interface Tls {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** Time in which a client must send its headers, milliseconds. */
const HEADERS_TIMEOUT_MS = 10_000;
/** Time in which a client must send a whole request, milliseconds. Responses are not limited, because streams stay open. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Time that an idle connection is kept, milliseconds: common load balancers close first, after 60 s. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;

/** Options of a listener. */
export interface ListenerOptions {
  readonly tls: Tls | undefined;
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void;
}

/** A listening socket for HTTP/1.1 and, with TLS, HTTP/2. */
export interface Listener {
  /** Listens; port 0 takes any free one. Resolves with the port. */
  listen(host: string, port: number): Promise<number>;
  /**
   * Asks clients to send their next request elsewhere: by `connection: close` with each response, or GOAWAY. New connections
   * are still accepted.
   */
  drain(): void;
  /** Accepts no new connections, closes idle ones, and cuts off open ones after `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}

/** Creates a listener. */
export function createListener({ tls, onRequest }: ListenerOptions): Listener {
  const server = tls === undefined ? createServer() : createSecureServer({ ...tls, allowHTTP1: true });
  // An HTTP/2 server has these properties for its HTTP/1.1 clients; its type omits them.
  Object.assign(server, {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  });
  const open = new Connections(server);
  // Node's HTTP/2 compatibility classes have every HTTP/1.1 member that is used here.
  server.on("request", (request: unknown, response: unknown) => {
    open.watch(request as IncomingMessage, response as ServerResponse);
    onRequest(request as IncomingMessage, response as ServerResponse);
  });
  return {
    listen: (host, port) => listen(server, host, port),
    drain: () => open.drain(),
    close: (graceMs) => open.close(graceMs),
  };
}

type AnyServer = Server | Http2SecureServer;

function listen(server: AnyServer, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/** Open connections of a server, closed as their responses end. */
class Connections {
  readonly #server: AnyServer;
  readonly #sockets = new Set<Socket>();
  /** The response in flight on each HTTP/1.1 connection; null while it is idle. */
  readonly #responses = new Map<Socket, ServerResponse | null>();
  readonly #sessions = new Set<ServerHttp2Session>();
  #draining = false;
  #closing = false;

  constructor(server: AnyServer) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      track(this.#sockets, socket);
    });
    // Only HTTP/2 servers emit this event.
    (server as EventEmitter).on("session", (session: ServerHttp2Session) => track(this.#sessions, session));
  }

  /** Closes a connection that becomes idle while the server closes. */
  watch({ socket, httpVersionMajor }: IncomingMessage, response: ServerResponse): void {
    if (httpVersionMajor === 1) {
      if (!this.#responses.has(socket)) socket.once("close", () => this.#responses.delete(socket));
      this.#responses.set(socket, response);
      if (this.#draining) response.shouldKeepAlive = false;
    }
    response.once("close", () => {
      if (this.#responses.get(socket) === response) this.#responses.set(socket, null);
      if (this.#closing) setImmediate(() => this.#closeIdle());
    });
  }

  drain(): void {
    this.#draining = true;
    // If the headers are already sent, the connection is closed once idle.
    for (const response of this.#responses.values()) if (response !== null) response.shouldKeepAlive = false;
    for (const session of this.#sessions) session.close();
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    const timer = setTimeout(() => this.#cutOff(), graceMs);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    this.#closeIdle();
    await closed;
    // The server counts only connections that it accepted itself.
    await Promise.all([...this.#sockets].map((socket) => once(socket, "close")));
    clearTimeout(timer);
  }

  /** Closes idle connections. Node's own method spares those that never sent a request, such as browsers open ahead. */
  #closeIdle(): void {
    if (this.#sessions.size > 0) return;
    for (const socket of this.#sockets) if (!this.#responses.get(socket)) socket.destroy();
  }

  #cutOff(): void {
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function track<T extends { once(event: "close", listener: () => void): unknown }>(set: Set<T>, item: T): void {
  set.add(item);
  item.once("close", () => set.delete(item));
}
