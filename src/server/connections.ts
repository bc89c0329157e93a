import { type EventEmitter, once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Http2SecureServer, Http2Server, ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";

type AnyServer = Server | Http2Server | Http2SecureServer;

/** Connections of a server, closed as their responses end. */
export class Connections {
  readonly #server: AnyServer;
  /** By the peer's address and port: that of TLS takes the place of the bare one after the handshake. */
  readonly #sockets = new Map<string, Socket>();
  /** The response in flight on each HTTP/1.1 connection; null while it is idle. */
  readonly #responses = new Map<Socket, ServerResponse | null>();
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #hasHttp1: boolean;
  #draining = false;
  #closing = false;

  /** `hasHttp1` tells that the server speaks HTTP/1.1, so that each request MUST come to `watch`. */
  constructor(server: AnyServer, { hasHttp1 }: { readonly hasHttp1: boolean }) {
    this.#server = server;
    this.#hasHttp1 = hasHttp1;
    const emitter: EventEmitter = server;
    // Only servers with TLS emit the second and the third event.
    emitter.on("connection", (socket: Socket) => this.#trackSocket(socket));
    emitter.on("secureConnection", (socket: TLSSocket) => this.#trackSocket(socket));
    emitter.on("session", (session: ServerHttp2Session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
  }

  /** Listens on a port; 0 means any free port. Resolves with the port. */
  listen(host: string, port: number): Promise<number> {
    const server = this.#server;
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        resolve((server.address() as AddressInfo).port);
      });
    });
  }

  #trackSocket(socket: Socket): void {
    const peer = `${socket.remoteAddress} ${socket.remotePort}`;
    this.#sockets.set(peer, socket);
    socket.once("close", () => {
      if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
    });
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

  /** Asks clients to send their next request elsewhere: by `connection: close` with each response, or GOAWAY. */
  drain(): void {
    this.#draining = true;
    // If the headers are already sent, the connection is closed once idle.
    for (const response of this.#responses.values()) if (response !== null) response.shouldKeepAlive = false;
    for (const session of this.#sessions) session.close();
  }

  /** Accepts no new connections, and closes idle ones. */
  leavePort(): void {
    this.#server.close();
  }

  /** Accepts no new connections, closes idle ones, and cuts off the others after `graceMs` milliseconds. */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    const timer = setTimeout(() => this.#cutOff(), graceMs);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    this.#closeIdle();
    await closed;
    // The server counts only connections that it accepted itself.
    await Promise.all([...this.#sockets.values()].map((socket) => once(socket, "close")));
    clearTimeout(timer);
  }

  /** Closes idle connections. Node's own method skips connections without a request so far, such as browsers open in advance. */
  #closeIdle(): void {
    if (!this.#hasHttp1) return;
    for (const socket of this.#sockets.values()) {
      // HTTP/2 closes its connections itself.
      const isHttp2 = (socket as TLSSocket).alpnProtocol === "h2";
      if (!isHttp2 && !this.#responses.get(socket)) socket.destroy();
    }
  }

  #cutOff(): void {
    for (const session of this.#sessions) session.destroy();
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}
