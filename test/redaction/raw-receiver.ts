import { type AddressInfo, createServer, type Socket } from "node:net";

/** Takes requests as bytes, without a parser in between. */
export interface RawReceiver {
  readonly port: number;
  /** Everything that came, one text for each connection, in the order of the connections. */
  readonly requests: string[];
  /** Resolves when so many whole requests came. */
  waitFor(count: number): Promise<void>;
  close(): Promise<void>;
}

const isWhole = (text: string): boolean => {
  const [head = "", body = ""] = text.split("\r\n\r\n");
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? "NaN");
  return Buffer.byteLength(body) >= length;
};

/** Starts a receiver that answers 204, or never. */
export async function startRawReceiver({ isSilent = false } = {}): Promise<RawReceiver> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  const server = createServer((socket) => {
    sockets.add(socket);
    const index = requests.push("") - 1;
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      requests[index] += chunk.toString("latin1");
      if (!isWhole(requests[index] ?? "")) return;
      if (!isSilent) socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
      for (const look of waiting) look();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    waitFor: (count) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (requests.filter(isWhole).length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
