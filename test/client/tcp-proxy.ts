import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy in front of a server that counts connections and can go silent. */
export interface TcpProxy {
  /** `127.0.0.1:port`. */
  readonly address: string;
  connections: number;
  /** While true nothing passes, in either direction, and connections stay open. */
  silent: boolean;
  /** Breaks every connection. */
  cut(): void;
  close(): void;
}

/** Starts a proxy in front of `host:port`. */
export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const [host = "", port = ""] = target.split(":");
  const sockets = new Set<Socket>();
  const track = (socket: Socket, other: Socket) => {
    sockets.add(socket);
    socket.on("data", (bytes) => proxy.silent || other.write(bytes));
    socket.on("error", () => other.destroy());
    socket.on("close", () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((near) => {
    proxy.connections += 1;
    const far = connect(Number(port), host);
    track(near, far);
    track(far, near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: TcpProxy = {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: 0,
    silent: false,
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    close: () => {
      server.close();
      proxy.cut();
    },
  };
  return proxy;
}
