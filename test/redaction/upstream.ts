import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** One request as the model's service got it. */
export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As it came. */
  readonly body: string;
  /** Resolves when the connection of the request is gone. */
  readonly gone: Promise<unknown>;
}

/** How the model's service answers: by itself, with whatever it likes. */
export type Answer = (asked: Asked, response: ServerResponse) => unknown;

/** A model's service on this machine, which says what a test tells it to. */
export interface Upstream {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly asked: Asked[];
  answer: Answer;
  close(): Promise<void>;
}

/** Starts a model's service. */
export async function startUpstream(answer: Answer = sends({})): Promise<Upstream> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const { method = "", url: path = "", headers } = request;
    const each = { method, path, headers, body: await text(request), gone: once(response, "close") };
    asked.push(each);
    await upstream.answer(each, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const upstream: Upstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    answer,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return upstream;
}

/** Answers with JSON. */
export function sends(json: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Answer {
  return (_asked, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(json));
  };
}

/** Answers with a stream of events, in the pieces given: each is written by itself. */
export function streams(
  pieces: readonly (string | Uint8Array)[],
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return async (_asked, response) => {
    response.writeHead(200, { "content-type": "text/event-stream", ...headers });
    for (const piece of pieces) {
      if (!response.write(piece)) await once(response, "drain");
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  };
}

/** The text of one event. */
export const event = (json: unknown, name?: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(json)}\n\n`;

const ENVELOPE = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000, model: "test-1" };

/** The event of one chunk of a chat completion. */
export const chunk = (delta: object, finishReason: string | null = null, index = 0): string =>
  event({ ...ENVELOPE, choices: [{ index, delta, logprobs: null, finish_reason: finishReason }] });

/** A chat completion that says some parts one after the other. */
export const chatEvents = (parts: readonly string[]): string[] => [
  chunk({ role: "assistant", content: "" }),
  ...parts.map((content) => chunk({ content })),
  chunk({}, "stop"),
  event({ ...ENVELOPE, choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } }),
  "data: [DONE]\n\n",
];

/** A whole chat completion. */
export const completion = (message: object): object => ({
  ...ENVELOPE,
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", ...message }, logprobs: null, finish_reason: "stop" }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

/** The events of an answer of `responses` that says some parts one after the other. */
export function responseEvents(parts: readonly string[], id = "resp_abc"): string[] {
  const whole = parts.join("");
  const part = { type: "output_text", text: whole, annotations: [] };
  const item = { id: "msg_1", type: "message", role: "assistant", status: "completed", content: [part] };
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const response = {
    id,
    object: "response",
    created_at: 1_700_000_000,
    model: "test-1",
    status: "in_progress",
    output: [],
  };
  const events: object[] = [
    { type: "response.created", response },
    { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", content: [] } },
    { type: "response.content_part.added", ...place, part: { ...part, text: "" } },
    ...parts.map((delta) => ({ type: "response.output_text.delta", ...place, delta, logprobs: [] })),
    { type: "response.output_text.done", ...place, text: whole, logprobs: [] },
    { type: "response.content_part.done", ...place, part },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { ...response, status: "completed", output: [item], usage: USAGE } },
  ];
  return events.map((each, index) => event({ ...each, sequence_number: index }, (each as { type: string }).type));
}

const USAGE = {
  input_tokens: 3,
  output_tokens: 2,
  total_tokens: 5,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens_details: { reasoning_tokens: 0 },
};
