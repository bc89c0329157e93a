/* A TCP link to a server that a test can break and mend. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** The link. */
export interface BreakableLink {
  readonly port: number;
  /** Ends all connections and refuses new ones. */
  break(): void;
  mend(): void;
  close(): Promise<void>;
}

/** Starts a link on a free port to a port of this machine. */
export async function startBreakableLink(to: { host: string; port: number }): Promise<BreakableLink> {
  const sockets = new Set<Socket>();
  let isBroken = false;
  const server = createServer((socket) => {
    if (isBroken) return void socket.destroy();
    const onward = connect(to);
    for (const each of [socket, onward]) {
      sockets.add(each);
      each.on("error", () => undefined);
      each.once("close", () => {
        sockets.delete(each);
        socket.destroy();
        onward.destroy();
      });
    }
    socket.pipe(onward).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const end = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    break() {
      isBroken = true;
      end();
    },
    mend() {
      isBroken = false;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        end();
      }),
  };
}
