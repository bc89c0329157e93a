import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** One request as a receiver got it. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** How a receiver answers. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Answers a request; a promise answers late. */
export type Answer = (received: Received, index: number) => Reply | Promise<Reply>;

/** A local HTTP server that keeps what it gets. */
export interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** The event of each request and the index that it tells of, in the order of arrival. */
  readonly seqs: number[];
  answer: Answer;
  /** Resolves when so many requests came. */
  waitFor(count: number): Promise<void>;
  /** Resolves when something holds, which is looked at after each request. */
  waitUntil(holds: () => boolean): Promise<void>;
  close(): Promise<void>;
}

const ACCEPTS: Answer = () => ({});

/** The index that a request tells of; undefined for a test. */
export const seqOf = ({ body }: Received): number => JSON.parse(body).data.seq;

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
}

/** Starts a receiver on 127.0.0.1. */
export async function startReceiver(answer: Answer = ACCEPTS, port = 0): Promise<Receiver> {
  const received: Received[] = [];
  const waiting = new Set<() => void>();
  const server = createServer(async (request, response) => {
    const got = { path: request.url ?? "", headers: request.headers, body: await text(request) };
    received.push(got);
    for (const look of waiting) look();
    const { status = 204, headers = {}, body = "" } = await receiver.answer(got, received.length - 1);
    response.writeHead(status, headers).end(body);
  });
  await listen(server, port);
  const bound = (server.address() as AddressInfo).port;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${bound}/hook`,
    port: bound,
    received,
    get seqs() {
      return received.map(seqOf);
    },
    answer,
    waitFor: (count) => receiver.waitUntil(() => received.length >= count),
    waitUntil: (holds) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (!holds()) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}
