import cluster from "node:cluster";
import type { Socket } from "node:net";
import { createControlPlane } from "../control-plane.ts";
import type { PortName, Receivers } from "../server/servers.ts";
import type { ToPrimary, ToWorker } from "./messages.ts";
import { createWorkerMetrics } from "./metrics-exchange.ts";
import type { Serving } from "./serving.ts";

/**
 * Serves as one of several processes until the primary, or a signal, tells it to stop. Rejects when it cannot, with
 * everything that was started stopped. Node ends the process at once when the primary is gone.
 */
export async function serveAsWorker({ config, log, stop }: Omit<Serving, "announce">): Promise<void> {
  await using started = new AsyncDisposableStack();
  // The channel to the primary would keep the process alive.
  started.defer(() => void cluster.worker?.disconnect());
  const send = (message: ToPrimary): void => void (process.connected && process.send?.(message));
  const metrics = createWorkerMetrics(send);
  const take = (receive: Receivers[PortName] | undefined, id: number, socket: Socket | undefined): void => {
    // First: what is the primary's still goes to another worker when this one ends.
    send({ kind: "taken", id });
    // Absent: the client left on the way.
    if (socket === undefined) send({ kind: "closed" });
    socket?.once("close", () => send({ kind: "closed" }));
    if (socket !== undefined) receive?.(socket);
  };
  const order = Promise.withResolvers<Extract<ToWorker, { kind: "start" }>>();
  const told = Promise.withResolvers<string>();
  let receivers: Receivers | undefined;
  process.on("message", (message: ToWorker, socket: Socket | undefined) => {
    if (message.kind === "connection") take(receivers?.[message.port], message.id, socket);
    else if (message.kind === "start") order.resolve(message);
    else if (message.kind === "stop") told.resolve(message.signal);
    else metrics.heard(message);
  });
  const { databaseUrl } = await order.promise;
  const metricsPage = metrics.page;
  const controlPlane = await createControlPlane({ config, databaseUrl, log, metricsPage });
  started.defer(() => controlPlane.close());
  receivers = controlPlane.serve();
  send({ kind: "serving" });
  const signal = await Promise.race([stop, told.promise]);
  log.info({ signal }, "stopping");
  send({ kind: "draining" });
}
