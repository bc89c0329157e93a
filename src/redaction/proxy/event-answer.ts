import type { Readable } from "node:stream";
import { ControlPlaneError } from "../../errors.ts";
import type { KindCounts } from "../text/types.ts";
import type { AnswerEvent, AnswerStream } from "./answer-stream.ts";
import { createChatStream } from "./chat-stream.ts";
import { openAiErrorFrom } from "./openai-error.ts";
import { isMap, type Json, llmUnavailable } from "./protocol.ts";
import { createResponsesStream, responseIdOf } from "./responses-stream.ts";
import type { AnswerOptions } from "./scrub-answer.ts";
import { createSseReader, type SseEvent, sseText } from "./sse.ts";
import { openPlainText } from "./text-stream.ts";

/** How a stream of events is answered. */
export interface EventAnswerOptions extends AnswerOptions {
  /** The path below `/v1`, which says what the events look like. */
  readonly path: string;
  /** Sends a piece; resolves when there is room for more. */
  readonly send: (text: string) => Promise<void>;
  /** Hears the id of an answer of `responses`. */
  readonly onResponseId: (id: string) => void;
}

/** What came of a stream. */
export interface EventAnswer {
  readonly leaked: KindCounts;
  /** What is left to send before the answer ends. */
  readonly rest: string;
  /** Why the stream broke off; undefined when it came to its end. */
  readonly fault: ControlPlaneError | undefined;
}

const CHAT = /^\/(chat\/)?completions$/;
const RESPONSES = /^\/responses(\/[^/]+)?$/;
const DONE = "[DONE]";

/** The stream that knows the events of a path. Throws LLM_UNAVAILABLE for events that nothing here can scrub. */
export function answerStreamFor(path: string, options: AnswerOptions): AnswerStream {
  if (CHAT.test(path)) return createChatStream(options);
  if (RESPONSES.test(path)) return createResponsesStream(options);
  throw llmUnavailable("the model's service streams what cannot be scrubbed");
}

function jsonFrom(data: string): Json {
  try {
    return JSON.parse(data) as Json;
  } catch {
    throw llmUnavailable("the model's service sent an event that is no JSON");
  }
}

const textOf = ({ name, json }: AnswerEvent): string => sseText({ name, data: JSON.stringify(json), comments: [] });

/** Scrubs a stream of events while it comes. Resolves when it has ended, however it did; `send` got all but `rest`. */
export async function answerEvents(options: EventAnswerOptions, body: Readable): Promise<EventAnswer> {
  const stream = answerStreamFor(options.path, options);
  const reader = createSseReader();
  const decoder = new TextDecoder();
  let rest = "";

  const comment = (text: string): string => {
    const plain = openPlainText(options);
    return plain.push(text) + plain.end();
  };

  const pushEvent = ({ name, data, comments }: SseEvent): string => {
    const said =
      comments.length === 0 ? "" : sseText({ name: undefined, data: undefined, comments: comments.map(comment) });
    if (data === undefined) return said;
    if (data === DONE) {
      // Only once the leaks are sealed: clients take it for the end.
      rest = sseText({ name, data, comments: [] });
      return said + stream.end().map(textOf).join("");
    }
    const json = jsonFrom(data);
    if (!isMap(json)) throw llmUnavailable("the model's service sent an event that cannot be scrubbed");
    const id = responseIdOf(json);
    if (id !== undefined) options.onResponseId(id);
    return said + stream.push(name, json).map(textOf).join("");
  };

  const pushAll = async (events: readonly SseEvent[]): Promise<void> => {
    const text = events.map(pushEvent).join("");
    if (text !== "") await options.send(text);
  };

  try {
    for await (const chunk of body) await pushAll(reader.push(decoder.decode(chunk as Buffer, { stream: true })));
    await pushAll([...reader.push(decoder.decode()), ...reader.end()]);
    rest = stream.end().map(textOf).join("") + rest;
    return { leaked: stream.leaked, rest, fault: undefined };
  } catch (error) {
    return { leaked: leakedAtEnd(stream), ...brokenOff(error) };
  }
}

/** What was leaked until a stream broke off; what is held back is lost. */
function leakedAtEnd(stream: AnswerStream): KindCounts {
  try {
    stream.end();
  } catch {
    // It broke off for the same reason; what was counted before counts.
  }
  return stream.leaked;
}

function brokenOff(error: unknown): Pick<EventAnswer, "rest" | "fault"> {
  const fault =
    error instanceof ControlPlaneError ? error : llmUnavailable("the answer of the model's service broke off", error);
  return { rest: textOf({ name: undefined, json: openAiErrorFrom(fault).body }), fault };
}
