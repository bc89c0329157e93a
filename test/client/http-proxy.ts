import { createServer, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** What a proxy does with the streams of the server. */
export type StreamHabit = "cuts" | "holds back" | "passes";

/** An HTTP proxy in front of a server that has its habits with streams, and passes everything else. */
export interface HttpProxy {
  readonly url: string;
  habit: StreamHabit;
  /** Paths of the calls so far. */
  readonly paths: string[];
  countOf(method: string): number;
  /** Pieces that the server sent on streams so far, heartbeats among them, held back or not. */
  readonly pieces: number;
  /** Streams that are open now. */
  readonly openStreams: number;
  /** Breaks every open stream. */
  cutStreams(): void;
  close(): void;
}

/** Starts a proxy in front of `target`. */
export async function startHttpProxy(target: string, habit: StreamHabit): Promise<HttpProxy> {
  const paths: string[] = [];
  const streams = new Set<ServerResponse>();
  let pieces = 0;
  const server: Server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? "";
    paths.push(path);
    const isStream = /\/(WaitEscalation|WatchAgent)$/.test(path);
    if (isStream) streams.add(outgoing);
    const { method, headers } = incoming;
    const onward = request(new URL(path, target), { method, headers }, (answer) => {
      if (isStream) answer.on("data", () => (pieces += 1));
      if (isStream && proxy.habit === "holds back") {
        answer.resume();
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
      if (isStream && proxy.habit === "cuts") answer.once("data", () => outgoing.destroy());
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => {
      streams.delete(outgoing);
      onward.destroy();
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: HttpProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    habit,
    paths,
    countOf: (name) => paths.filter((path) => path.endsWith(`/${name}`)).length,
    get pieces() {
      return pieces;
    },
    get openStreams() {
      return streams.size;
    },
    cutStreams: () => {
      for (const stream of streams) stream.destroy();
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
  return proxy;
}
