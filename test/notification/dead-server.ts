import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** Behaviour of a dead server: it says nothing, or something without an end. */
export type Death = "silent" | "endless";

/** A server on this machine that takes connections and never serves anything. */
export interface DeadServer {
  readonly port: number;
  /** Connections that are open, and those that ended. */
  readonly open: number;
  readonly ended: number;
  /** Resolves once so many connections are open. */
  opened(least: number): Promise<void>;
  close(): Promise<void>;
}

/** Milliseconds between two parts of an endless answer. */
const PART_MS = 20;

/** Starts a dead server. `begin` is what an endless answer begins with, and `part` what it goes on with. */
export async function startDeadServer(death: Death, begin = "", part = ""): Promise<DeadServer> {
  const sockets = new Set<Socket>();
  let ended = 0;
  let note = (): void => undefined;
  const listener = createServer((socket) => {
    sockets.add(socket);
    note();
    socket.on("error", () => undefined).resume();
    const timer = death === "endless" ? setInterval(() => socket.write(part), PART_MS) : undefined;
    if (death === "endless") socket.write(begin);
    socket.once("close", () => {
      clearInterval(timer);
      sockets.delete(socket);
      ended += 1;
    });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    port: (listener.address() as AddressInfo).port,
    get open() {
      return sockets.size;
    },
    get ended() {
      return ended;
    },
    opened: (least) =>
      new Promise((resolve) => {
        note = () => {
          if (sockets.size >= least) resolve();
        };
        note();
      }),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
