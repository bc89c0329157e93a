import type { Readable } from "node:stream";
import { createParser } from "eventsource-parser";
import type { Portion } from "../../async/shared-pot.ts";
import { Turns } from "../../async/turns.ts";
import { doInTurns } from "../../async/work.ts";
import { ControlPlaneError } from "../../errors.ts";
import { writeJson } from "../../json/write-json.ts";
import type { KindCounts } from "../../text/personal-kinds.ts";
import { ChatStream } from "./chat-stream.ts";
import { openAiErrorFrom } from "./http-messages.ts";
import { readModelJson } from "./model-json.ts";
import { isMap, type JsonMap, llmUnavailable } from "./protocol.ts";
import { openPlainText } from "./response-text.ts";
import { ResponsesStream, responseIdOf } from "./responses-stream.ts";
import { type EventScrubber, type ModelEvent, pushText, type ResponseOptions } from "./scrub-response.ts";

/** An event of a `text/event-stream`, or a comment. */
export type SseItem = { readonly name: string | undefined; readonly data: string } | { readonly comment: string };

/** Reads events from text in arbitrary chunks. */
export interface SseReader {
  /** Returns the items that a chunk completes. Throws LLM_UNAVAILABLE for an event that is too long. */
  push(chunk: string): SseItem[];
  /** Returns the items that the end of the stream completes. */
  end(): SseItem[];
}

/** Options of a streamed response. */
export interface EventResponseOptions extends ResponseOptions {
  /** Path below `/v1`, which determines the form of the events. */
  readonly path: string;
  /** Sends a chunk. Resolves once there is room for more. */
  readonly send: (text: string) => Promise<void>;
  /** Receives the id of a response of `/responses`. */
  readonly onResponseId: (id: string) => void;
  /** Aborts with an error when the caller loses its right to ask. Default: it never does. */
  readonly callerEnd?: AbortSignal;
  /** Portion of the bytes of answers. Its `add` MAY throw OVERLOADED, which breaks the stream off. */
  readonly held: Pick<Portion, "add" | "empty">;
}

/** End of a streamed response. */
export interface EventResponse {
  readonly leaked: KindCounts;
  /** Text that is still to be sent. */
  readonly rest: string;
  /** Error that broke off the stream; undefined if it was complete. */
  readonly fault: ControlPlaneError | undefined;
}

/** Maximum UTF-16 units of one event. */
const MAX_EVENT = 16_777_216;
/** Bytes that count for a text of which the end is held back until more of it has come. */
const TEXT_BYTES = 8_192;
/** Form of an event's name. Other names are dropped, since they may be any text. */
const PLAIN_NAME = /^[\w.:-]{1,100}$/;
const LINE_END = /\r\n|\n|\r/;
const CHAT = /^\/(chat\/)?completions$/;
const RESPONSES = /^\/responses(\/[^/]+)?$/;
const DONE = "[DONE]";

/** Creates a reader of `text/event-stream` (HTML standard §9.2.6) without its ids and retry times. */
export function createSseReader(): SseReader {
  let items: SseItem[] = [];
  const parser = createParser({
    maxBufferSize: MAX_EVENT,
    onEvent: ({ event = "", data }) => items.push({ name: PLAIN_NAME.test(event) ? event : undefined, data }),
    onComment: (comment) => items.push({ comment }),
    onError({ type }) {
      if (type === "max-buffer-size-exceeded") {
        throw llmUnavailable("the model's service sent an event that is too long");
      }
    },
  });
  const push = (chunk: string): SseItem[] => {
    parser.feed(chunk);
    const read = items;
    items = [];
    return read;
  };
  // A last event without an empty line after it also counts.
  return { push, end: () => push("\n\n") };
}

const commentText = (comment: string): string =>
  `${comment
    .split(LINE_END)
    .map((line) => `: ${line}`)
    .join("\n")}\n\n`;

const eventText = (name: string | undefined, data: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`;

/** Creates the scrubber for the events of a path. Throws LLM_UNAVAILABLE for a path whose events cannot be scrubbed. */
export function createEventScrubber(path: string, options: ResponseOptions): EventScrubber {
  if (CHAT.test(path)) return new ChatStream(options);
  if (RESPONSES.test(path)) return new ResponsesStream(options);
  throw llmUnavailable("the model's service streams what cannot be scrubbed");
}

async function readData(data: string): Promise<JsonMap> {
  const json = await readModelJson(data);
  if (json === undefined) throw llmUnavailable("the model's service sent an event that is not JSON");
  if (!isMap(json)) throw llmUnavailable("the model's service sent an event that cannot be scrubbed");
  return json;
}

/**
 * Scrubs and sends events as they arrive. Resolves when the stream has ended, with or without a fault; everything except `rest`
 * is sent.
 */
export async function pipeEvents(options: EventResponseOptions, body: Readable): Promise<EventResponse> {
  const scrubber = createEventScrubber(options.path, options);
  const reader = createSseReader();
  const decoder = new TextDecoder();
  let rest = "";

  const modelEventText = async ({ name, json }: ModelEvent): Promise<string> =>
    eventText(name, await writeJson(await doInTurns(options.markIds(json))));

  const modelEventsText = async (events: readonly ModelEvent[]): Promise<string> => {
    let text = "";
    for (const event of events) text += await modelEventText(event);
    return text;
  };

  const scrubComment = async (text: string): Promise<string> => {
    const stream = openPlainText(options);
    return commentText((await doInTurns(pushText(stream, text))) + stream.end());
  };

  const scrubItem = async (item: SseItem): Promise<string> => {
    if ("comment" in item) return scrubComment(item.comment);
    const { name, data } = item;
    if (data === DONE) {
      // Held back until the leaks are sealed, because clients take this event as the end. It has no name in the protocol.
      rest = eventText(undefined, data);
      return modelEventsText(scrubber.end());
    }
    const json = await readData(data);
    const id = responseIdOf(json);
    if (id !== undefined) options.onResponseId(id);
    return modelEventsText(await doInTurns(scrubber.push(name, json)));
  };

  const turns = new Turns();
  const sendAll = async (items: readonly SseItem[]): Promise<void> => {
    let text = "";
    for (const item of items) {
      text += await scrubItem(item);
      await turns.giveWay();
    }
    if (text !== "") await options.send(text);
  };

  try {
    for await (const chunk of body) {
      options.held.add((chunk as Buffer).length);
      const items = reader.push(decoder.decode(chunk as Buffer, { stream: true }));
      if (items.length === 0) continue;
      await sendAll(items);
      // The rest of the chunk belongs to the next event, and is at most as long as a chunk.
      options.held.empty();
      options.held.add(scrubber.held * TEXT_BYTES);
    }
    await sendAll([...reader.push(decoder.decode()), ...reader.end()]);
    rest = (await modelEventsText(scrubber.end())) + rest;
    return { leaked: scrubber.leaked, rest, fault: undefined };
  } catch (error) {
    const cause: unknown = options.callerEnd?.aborted ? options.callerEnd.reason : error;
    const fault =
      cause instanceof ControlPlaneError ? cause : llmUnavailable("the answer of the model's service broke off", error);
    const last = eventText(undefined, JSON.stringify(openAiErrorFrom(fault).body));
    return { leaked: leaksOfBroken(scrubber), rest: last, fault };
  }
}

/** Counts the leaks of a stream that broke off. The text held back is dropped. */
function leaksOfBroken(scrubber: EventScrubber): KindCounts {
  try {
    scrubber.end();
  } catch {
    // The same fault occurred again; the leaks that were counted before remain.
  }
  return scrubber.leaked;
}
