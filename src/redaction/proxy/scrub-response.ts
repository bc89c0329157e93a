import type { Work } from "../../async/work.ts";
import { addCounts, type KindCounts, type PersonalKind } from "../../text/personal-kinds.ts";
import type { ScrubberStream } from "../text/scrubber.ts";
import { type Place, walkAnswer } from "./answer-walk.ts";
import { isWord } from "./kept.ts";
import { isDocument, type Json, type JsonMap, llmUnavailable } from "./protocol.ts";
import { openJsonText, openPlainText, type TextOptions } from "./response-text.ts";

/** Options for scrubbing a response. */
export interface ResponseOptions extends TextOptions {
  /** True if the request asked for JSON documents. */
  readonly isJson: boolean;
  /** True passes images, audio and files unscrubbed; false refuses the response. */
  readonly allowMedia: boolean;
  /** Marks the ids of stored objects (see `StoredObjects`). */
  readonly markIds: (json: Json) => Work<Json>;
}

/** An event of a streamed response: its optional name and its JSON. */
export interface ModelEvent {
  readonly name: string | undefined;
  readonly json: Json;
}

/** Scrubs the events of one streamed response. */
export interface EventScrubber {
  /** Takes the next event and returns the events to send. Throws LLM_UNAVAILABLE for an event that cannot be scrubbed. */
  push(name: string | undefined, json: JsonMap): Work<readonly ModelEvent[]>;
  /** Returns the events held back: before `[DONE]` and at the end of the stream. */
  end(): readonly ModelEvent[];
  /** Number of texts and choices that have begun, which are held in part. */
  readonly held: number;
  /** Leaks in the response so far. */
  readonly leaked: KindCounts;
}

/** Members with the requested text of the model. */
const CONTENT_MEMBERS = new Set(["content", "text", "output_text", "delta"]);
/** Opens a stream for a member's text, which is a JSON document or plain text. */
export function openText(options: ResponseOptions, name: string): ScrubberStream {
  const isJson = isDocument(name) || (options.isJson && CONTENT_MEMBERS.has(name));
  return isJson ? openJsonText(options) : openPlainText(options);
}

/** Throws LLM_UNAVAILABLE unless media is allowed. */
export function assertMediaAllowed({ allowMedia }: ResponseOptions): void {
  if (allowMedia) return;
  throw llmUnavailable("the model answered with an image, audio or a file, which cannot be scrubbed");
}

/** Characters of a text that are scrubbed between two looks at the clock. */
const PIECE = 1_024;

/** Pushes a text into its stream, with pauses. */
export function* pushText(stream: ScrubberStream, text: string): Work<string> {
  if (text.length <= PIECE) return stream.push(text);
  const out: string[] = [];
  for (let start = 0; start < text.length; start += PIECE) {
    out.push(stream.push(text.slice(start, start + PIECE)));
    yield;
  }
  return out.join("");
}

/** Scrubs a whole value of a response and adds its leaks to `leaked`. */
export function* scrubValue(
  options: ResponseOptions,
  value: Json,
  leaked: Map<PersonalKind, number>,
  name = "",
): Work<Json> {
  const scrubAs = function* (member: string, text: string): Work<string> {
    const stream = openText(options, member);
    const scrubbed = (yield* pushText(stream, text)) + stream.end();
    addCounts(leaked, stream.leaked);
    return scrubbed;
  };
  const scrub = (place: Place, text: string): Work<string> => scrubAs(textNameOf(place), text);
  const alone = (text: string): Work<string> => scrubAs("", text);
  const media = (): void => assertMediaAllowed(options);
  return yield* walkAnswer({ alone, whole: scrub, continued: scrub, pass: () => undefined, media }, value, name);
}

/** Returns the name by which a text is opened: what a model or a caller makes up is no document by its name. */
export const textNameOf = ({ isFree, name }: Place): string => (isFree ? "" : name);

/** Scrubs the name of an event. Returns undefined for a name that holds a value, which clients do not need. */
export function scrubEventName(
  options: ResponseOptions,
  name: string | undefined,
  leaked: Map<PersonalKind, number>,
): string | undefined {
  if (name === undefined || isWord(name)) return name;
  const stream = openPlainText(options);
  const scrubbed = stream.push(name) + stream.end();
  addCounts(leaked, stream.leaked);
  return scrubbed === name ? name : undefined;
}
