import { EventEmitter, once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** One request as the model's server got it. */
export interface AskedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What the server does with a request; `index` counts from 0. It may leave the response open. */
export type Behaviour = (response: ServerResponse, index: number, asked: AskedRequest) => void;

/** A local server that speaks the protocol of a model's service as well or as badly as it is told. */
export interface ModelServer {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly asked: AskedRequest[];
  behaviour: Behaviour;
  /** Requests under way now, and the most that ever were at once. */
  readonly open: { now: number; most: number };
  /** Resolves when so many requests came in all. */
  waitFor(count: number): Promise<void>;
  /** Resolves when nothing is under way any more: its connections were closed or answered. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** A completion whose only message has this content. */
export const completion = (content: unknown, message: object = {}, choice: object = {}, answer: object = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  model: "model-2025-01-01",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content, ...message }, ...choice }],
  ...answer,
});

/** A verdict as the model writes it. */
export const verdict = (members: object = {}): string =>
  JSON.stringify({ violates: true, confidence: 0.9, reason: "it sends a secret away", ...members });

/** Answers with a JSON value, or with a text as it is. */
export const answers =
  (body: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Behaviour =>
  (response) => {
    const written = typeof body === "string" ? body : JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(written);
  };

/** Answers with a verdict. */
export const judges = (members: object = {}): Behaviour => answers(completion(verdict(members)));

/** Resets the connection without a word. */
export const resets: Behaviour = (response) => void response.socket?.resetAndDestroy();

/** Never says anything. */
export const staysSilent: Behaviour = () => undefined;

/** Starts a server on 127.0.0.1. */
export async function startModelServer(behaviour: Behaviour = judges()): Promise<ModelServer> {
  const asked: AskedRequest[] = [];
  const open = { now: 0, most: 0 };
  const waiting = new Set<() => void>();
  const came = new EventEmitter();
  const server = createServer(async (request, response) => {
    open.now += 1;
    open.most = Math.max(open.most, open.now);
    response.on("close", () => {
      open.now -= 1;
      if (open.now === 0) for (const resolve of waiting) resolve();
    });
    const { method = "", url: path = "", headers } = request;
    // A client that gives up in the middle of its request is one of the things to be expected here.
    const body = await text(request).catch(() => "");
    asked.push({ method, path, headers, body });
    came.emit("request");
    started.behaviour(response, asked.length - 1, asked.at(-1) as AskedRequest);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const started: ModelServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    behaviour,
    open,
    async waitFor(count) {
      while (asked.length < count) await once(came, "request");
    },
    idle: () => (open.now === 0 ? Promise.resolve() : new Promise((resolve) => waiting.add(resolve))),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return started;
}
