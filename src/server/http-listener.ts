import { type EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";

/** Certificate and key of a listener, in PEM. */
export interface Tls {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** Milliseconds for a client to send its headers. */
const HEADERS_TIMEOUT_MS = 10_000;
/** Milliseconds for a client to send a whole request. A response may take any time: streams do. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Milliseconds that an idle connection is kept: above the 60 s of common load balancers, so that they close it first. */
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
   * Asks every client to send its next request elsewhere: by `connection: close` with each response, or GOAWAY.
   * Connections that come still are taken.
   */
  drain(): void;
  /** Takes no new connections, closes idle ones, and cuts off what is open after `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}

/** Creates a listener. */
export function createListener({ tls, onRequest }: ListenerOptions): Listener {
  const server = tls === undefined ? createServer() : createSecureServer({ ...tls, allowHTTP1: true });
  // An HTTP/2 server has these too, for its HTTP/1.1 clients, though its type does not say so.
  Object.assign(server, {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
  });
  const open = new Connections(server);
  // The HTTP/2 classes of Node's compatibility layer stand in for those of HTTP/1.1 in everything that is used here.
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

/** The open connections of a server, to be let go as their responses end. */
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
    // A server without TLS has no sessions and never says this.
    (server as EventEmitter).on("session", (session: ServerHttp2Session) => track(this.#sessions, session));
  }

  /** A connection that falls idle while the server closes is closed with its response. */
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
    // One whose headers are sent is not told; its connection is closed when it has fallen idle.
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
    // The server counts those alone that it accepted itself.
    await Promise.all([...this.#sockets].map((socket) => once(socket, "close")));
    clearTimeout(timer);
  }

  /** Node's own `closeIdleConnections` spares a connection that never sent a request, such as a browser opens ahead. */
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
