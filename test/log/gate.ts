import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** A way to the database that can be shut: what PostgreSQL looks like while it restarts. */
export interface Gate {
  /** The database's URL through the gate. */
  readonly url: string;
  /** Connections that came while it was shut. */
  readonly refused: number;
  /** Breaks every connection and takes no new one. */
  shut(): void;
  open(): void;
  close(): void;
}

/** Puts an open gate in front of a database. */
export async function startGate(databaseUrl: string): Promise<Gate> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let isShut = false;
  let refused = 0;
  const join = (socket: Socket, other: Socket): void => {
    sockets.add(socket);
    socket.pipe(other);
    socket.on("error", () => other.destroy());
    socket.on("close", () => {
      sockets.delete(socket);
      other.destroy();
    });
  };
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((near) => {
    if (isShut) {
      refused += 1;
      near.destroy();
      return;
    }
    const far = connect(Number(target.port), target.hostname);
    join(near, far);
    join(far, near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(databaseUrl);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: url.href,
    get refused() {
      return refused;
    },
    shut() {
      isShut = true;
      cut();
    },
    open() {
      isShut = false;
    },
    close() {
      server.close();
      cut();
    },
  };
}

/** Waits until something holds; the test's own time limit ends the waiting. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(10);
}
