import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { type Addresses, addressesFrom, type PortName, type PortOptions } from "../server/servers.ts";
import type { ToWorker } from "./messages.ts";

/** Who connections are handed to. */
export interface Receiver {
  /** Hands over a message with a connection. */
  hand(message: ToWorker, socket: Socket): void;
}

/** The ports of several processes: connections are accepted here and handed on with nothing read from them. */
export interface Ports {
  /** Rejects when a port is taken. */
  listen(options: PortOptions): Promise<Addresses>;
  /** The receiver has the connection; until then it goes to another if the receiver is lost. */
  taken(id: number): void;
  /** The receiver is gone. */
  lost(receiver: Receiver): void;
  /** There may be somebody now for connections that found nobody. */
  retry(): void;
  /** Listens no more, and closes connections that nobody took. */
  close(): void;
}

interface Waiting {
  readonly port: PortName;
  readonly socket: Socket;
  receiver: Receiver | undefined;
}

/** Creates the ports. `choose` names who is to have the next connection; undefined while there is nobody. */
export function createPorts(choose: () => Receiver | undefined): Ports {
  const waiting = new Map<number, Waiting>();
  const servers: Server[] = [];
  let count = 0;

  const offer = (id: number, connection: Waiting): void => {
    connection.receiver = choose();
    connection.receiver?.hand({ kind: "connection", id, port: connection.port }, connection.socket);
  };
  const letGo = (id: number): void => {
    waiting.get(id)?.socket.destroy();
    waiting.delete(id);
  };
  const listen = (port: PortName, host: string, wanted: number): Promise<number> => {
    // INVARIANT: nothing is read here, so that whoever has the connection reads it from its first byte.
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      const connection: Waiting = { port, socket, receiver: undefined };
      count += 1;
      waiting.set(count, connection);
      offer(count, connection);
      socket.on("error", () => undefined);
    });
    servers.push(server);
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(wanted, host, () => resolve((server.address() as AddressInfo).port));
    });
  };

  return {
    async listen({ host, httpPort, grpcPort }) {
      const http = await listen("http", host, httpPort);
      const grpc = await listen("grpc", host, grpcPort);
      return addressesFrom(host, { http, grpc });
    },
    taken: letGo,
    lost(receiver) {
      for (const [id, connection] of waiting) if (connection.receiver === receiver) offer(id, connection);
    },
    retry() {
      for (const [id, connection] of waiting) if (connection.receiver === undefined) offer(id, connection);
    },
    close() {
      for (const server of servers) server.close();
      for (const id of waiting.keys()) letGo(id);
    },
  };
}
