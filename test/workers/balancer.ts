import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A load balancer for TCP: connections go to its targets in turn, past those that do not take them. */
export interface Balancer {
  /** `127.0.0.1:port`. */
  readonly address: string;
  close(): void;
}

async function reach(targets: readonly string[], first: number): Promise<Socket | undefined> {
  for (let index = 0; index < targets.length; index++) {
    const [host = "", port] = (targets[(first + index) % targets.length] as string).split(":");
    const socket = connect(Number(port), host);
    const reached = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    });
    if (reached) return socket;
  }
  return undefined;
}

/** Starts a balancer in front of `host:port` targets. */
export async function startBalancer(targets: readonly string[]): Promise<Balancer> {
  const sockets = new Set<Socket>();
  const join = (from: Socket, to: Socket): void => {
    sockets.add(from);
    from.on("error", () => to.destroy());
    from.on("close", () => {
      sockets.delete(from);
      to.destroy();
    });
    from.pipe(to);
  };
  let count = 0;
  const server = createServer({ pauseOnConnect: true }, async (near) => {
    near.on("error", () => undefined);
    const far = await reach(targets, count++);
    if (far === undefined) return void near.destroy();
    join(near, far);
    join(far, near);
    near.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
