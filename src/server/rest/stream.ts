import type { ServerResponse } from "node:http";
import type { Message } from "@bufbuild/protobuf";
import { EVENT_STREAM_TYPE, NDJSON_TYPE, type StreamFormat } from "./accept.ts";
import type { ClientWatch } from "./call.ts";
import { openStream } from "./respond.ts";

/** How long the first message or failure is awaited before the response starts, so that an early failure keeps its HTTP status. */
const FIRST_RESULT_MS = 50;

/** What a server stream needs to be written to a response. */
export interface StreamOptions {
  readonly response: ServerResponse;
  readonly client: ClientWatch;
  readonly format: StreamFormat;
  readonly messages: AsyncIterable<Message>;
  /** One line of JSON for a message. */
  readonly textOf: (message: Message) => string;
  /** Where a client may resume after a message; `""` when it cannot. */
  readonly cursorOf: (message: Message) => string;
  /** The JSON body for a failure of the stream. */
  readonly errorBody: (error: unknown) => object;
}

interface Framing {
  readonly contentType: string;
  /** Written at once, so that proxies and clients see that the stream is open. */
  readonly opening: string;
  message(text: string, cursor: string): string;
  failure(text: string): string;
}

const FRAMINGS: Readonly<Record<StreamFormat, Framing>> = {
  sse: {
    contentType: EVENT_STREAM_TYPE,
    opening: ": open\n\n",
    message: (text, cursor) => (cursor === "" ? `data: ${text}\n\n` : `id: ${cursor}\ndata: ${text}\n\n`),
    failure: (text) => `event: error\ndata: ${text}\n\n`,
  },
  ndjson: {
    contentType: NDJSON_TYPE,
    opening: "",
    message: (text) => `${text}\n`,
    failure: (text) => `${text}\n`,
  },
};

const GONE = Symbol("client gone");

/** Waits for a promise or for the client to leave, without piling up listeners on a signal that lives as long as the stream. */
interface Waiter {
  until<T>(promise: Promise<T>): Promise<T | typeof GONE>;
}

function waiterFor(client: ClientWatch): Waiter {
  let leave: (() => void) | undefined;
  client.signal.addEventListener("abort", () => leave?.(), { once: true });
  return {
    until: (promise) =>
      new Promise((resolve, reject) => {
        leave = () => resolve(GONE);
        if (client.gone) leave();
        promise.then(resolve, reject);
      }),
  };
}

/**
 * Writes a stream until it ends, fails or the client leaves. MUST run the iterator's `return()` in the last case
 * and hold the stream back while the client does not read. Rejects only while the response has not started.
 */
export async function sendStream(options: StreamOptions): Promise<void> {
  const iterator = options.messages[Symbol.asyncIterator]();
  const first = iterator.next();
  await settledSoon(first);
  if (options.client.gone) return stop(iterator);
  const framing = FRAMINGS[options.format];
  openStream(options.response, framing.contentType);
  if (framing.opening !== "") options.response.write(framing.opening);
  try {
    await writeMessages(iterator, first, framing, options);
  } catch (error) {
    stop(iterator);
    if (!options.client.gone) options.response.write(framing.failure(failureText(options.errorBody(error))));
  }
  options.response.end();
}

async function settledSoon(first: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const soon = new Promise((resolve) => {
    timer = setTimeout(resolve, FIRST_RESULT_MS);
  });
  await Promise.race([first, soon]).finally(() => clearTimeout(timer));
}

async function writeMessages(
  iterator: AsyncIterator<Message>,
  first: Promise<IteratorResult<Message>>,
  framing: Framing,
  { response, client, textOf, cursorOf }: StreamOptions,
): Promise<void> {
  const waiter = waiterFor(client);
  for (let next = first; ; next = iterator.next()) {
    const result = await waiter.until(next);
    if (result === GONE) return stop(iterator);
    if (result.done) return;
    const flowing = response.write(framing.message(textOf(result.value), cursorOf(result.value)));
    const drained = flowing ? undefined : await waiter.until(drain(response));
    if (drained === GONE) return stop(iterator);
  }
}

function drain(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once("drain", resolve));
}

// Nobody is left to be told of a failure while the source cleans up.
function stop(iterator: AsyncIterator<Message>): void {
  iterator.return?.().catch(() => undefined);
}

function failureText(body: object): string {
  return JSON.stringify("error" in body ? body : { error: body });
}
