import { connect, type Socket } from "node:net";
import { httpBytes, requestsOf } from "../workload.ts";
import { type LaneContext, type Lanes, runLanes } from "./lanes.ts";
import type { Source } from "./plan.ts";
import type { Recorder } from "./recorder.ts";

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: (\d+)\r\n/i;

/** Bytes of the reply at the start of the text; undefined when it is not all there. Throws for anything but status 200. */
function replyLength(received: Buffer): number | undefined {
  const headEnd = received.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = received.toString("latin1", 0, headEnd + 2);
  const length = LENGTH.exec(head)?.[1];
  if (!head.startsWith("HTTP/1.1 200") || length === undefined) throw new Error(received.toString());
  const end = headEnd + HEAD_END.length + Number(length);
  return received.length < end ? undefined : end;
}

function converse(socket: Socket, { recorder, isOver }: LaneContext, next: () => Buffer): Promise<void> {
  let received: Buffer = Buffer.alloc(0);
  let startedAt = 0;
  const call = (): void => {
    startedAt = performance.now();
    socket.write(next());
  };
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("a connection was closed")));
    socket.on("data", (chunk) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      try {
        if (replyLength(received) === undefined) return;
      } catch (error) {
        return reject(error as Error);
      }
      received = Buffer.alloc(0);
      recorder.record(startedAt);
      if (isOver()) resolve();
      else call();
    });
    socket.once("connect", call);
  });
}

/** Callers on a connection each, kept alive, that wait for a reply before they call again. */
export function startRest(source: Extract<Source, { kind: "rest" }>, recorder: Recorder): Lanes {
  const { target, callers } = source;
  const { address, apiKey, agentIds } = target;
  const requests = requestsOf(agentIds).map((request) => httpBytes(request, address, apiKey));
  const [host = "", port] = address.split(":");
  const sockets: Socket[] = [];
  const runLane = (lane: number, context: LaneContext): Promise<void> => {
    const socket = connect({ host, port: Number(port), noDelay: true });
    sockets.push(socket);
    let position = Math.floor((requests.length / callers) * lane);
    return converse(socket, context, () => requests[position++ % requests.length] as Buffer);
  };
  return runLanes(callers, recorder, runLane, () => {
    for (const socket of sockets) socket.destroy();
  });
}
