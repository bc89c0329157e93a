import { llmUnavailable } from "./protocol.ts";

/** One event of a server-sent stream, or comments between two. */
export interface SseEvent {
  /** The `event:` field; undefined for none. */
  readonly name: string | undefined;
  /** The `data:` lines joined by line feeds; undefined for none. */
  readonly data: string | undefined;
  readonly comments: readonly string[];
}

/** Reads events from text that comes in chunks, split anywhere. */
export interface SseReader {
  /** Gives the events that a chunk completes. Throws LLM_UNAVAILABLE for one that is too long. */
  push(chunk: string): SseEvent[];
  /** Gives what the end of the stream completes. */
  end(): SseEvent[];
}

/** UTF-16 units of one event at most. */
const MAX_EVENT = 16_777_216;
const LINE_END = /\r\n|\n|\r/g;
/** What a plain `event` field looks like; others are left out, since they might say anything. */
const PLAIN_NAME = /^[\w.:-]{1,100}$/;
const BYTE_ORDER_MARK = "\ufeff";

/** Creates a reader of `text/event-stream` as the HTML standard (§9.2.6) parses it. `id` and `retry` fields are left out. */
export function createSseReader(): SseReader {
  let rest = "";
  let isFirst = true;
  let size = 0;
  let name: string | undefined;
  let data: string[] = [];
  let comments: string[] = [];

  const dispatch = (): SseEvent[] => {
    const event = { name, data: data.length === 0 ? undefined : data.join("\n"), comments };
    const isEmpty = event.data === undefined && comments.length === 0;
    [name, data, comments, size] = [undefined, [], [], 0];
    return isEmpty ? [] : [event];
  };

  const takeLine = (line: string): SseEvent[] => {
    if (line === "") return dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "") comments.push(value);
    else if (field === "data") data.push(value);
    else if (field === "event" && PLAIN_NAME.test(value)) name = value;
    return [];
  };

  const take = (text: string, isEnd: boolean): SseEvent[] => {
    const events: SseEvent[] = [];
    let from = 0;
    LINE_END.lastIndex = 0;
    for (let end = LINE_END.exec(text); end !== null; end = LINE_END.exec(text)) {
      // A carriage return at the end of a chunk may be half of a line end.
      if (!isEnd && end[0] === "\r" && end.index === text.length - 1) break;
      events.push(...takeLine(text.slice(from, end.index)));
      from = end.index + end[0].length;
    }
    rest = text.slice(from);
    return events;
  };

  return {
    push(chunk) {
      size += chunk.length;
      if (size > MAX_EVENT) throw llmUnavailable("the model's service sent an event that is too long");
      const text = isFirst && chunk.startsWith(BYTE_ORDER_MARK) ? chunk.slice(1) : chunk;
      isFirst = false;
      return take(rest + text, false);
    },
    end: () => [...take(rest, true), ...(rest === "" ? [] : takeLine(rest)), ...dispatch()],
  };
}

/** The text of an event as it is sent. */
export function sseText({ name, data, comments }: SseEvent): string {
  const lines = [
    ...comments.map((comment) => `: ${comment}`),
    ...(name === undefined ? [] : [`event: ${name}`]),
    ...(data === undefined ? [] : data.split("\n").map((line) => `data: ${line}`)),
  ];
  return `${lines.join("\n")}\n\n`;
}
