import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Transform } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { sessionUrlOf } from "../support/pooler.ts";

/** A way to the database that can be shut: what PostgreSQL looks like while it restarts. */
export interface Gate {
  /** The database's URL through the gate. */
  readonly url: string;
  /** Connections that came while it was shut. */
  readonly refused: number;
  /** Breaks every connection and takes no new one. */
  shut(): void;
  open(): void;
  /** Leads new connections to another port of this machine. */
  leadTo(port: number): void;
  /** Lets nothing through on the connections that are there, and ends none: a network that lost them silently. */
  freeze(): void;
  /** Holds everything that goes through back for some milliseconds, either way; 0 for no longer. */
  slow(ms: number): void;
  close(): void;
}

/** Puts an open gate in front of a database, behind the pooler of the tests: what goes through keeps its sessions. */
export async function startGate(databaseUrl: string): Promise<Gate> {
  const target = new URL(sessionUrlOf(databaseUrl));
  const sockets = new Set<Socket>();
  let isShut = false;
  let refused = 0;
  let heldMs = 0;
  const join = (socket: Socket, other: Socket): void => {
    sockets.add(socket);
    const held = new Transform({
      transform(chunk: Buffer, _, done) {
        if (heldMs === 0) done(null, chunk);
        else setTimeout(() => done(null, chunk), heldMs);
      },
    });
    socket.pipe(held).pipe(other);
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
    leadTo(port) {
      target.host = `127.0.0.1:${port}`;
    },
    freeze() {
      for (const socket of sockets) socket.unpipe().pause();
    },
    slow(ms) {
      heldMs = ms;
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
