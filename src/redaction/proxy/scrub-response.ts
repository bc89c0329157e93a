import type { Work } from "../../async/work.ts";
import { addCounts, type KindCounts, type PersonalKind } from "../../text/personal-kinds.ts";
import type { ScrubberStream } from "../text/scrubber.ts";
import {
  isDocument,
  isMap,
  isMedia,
  isMediaMember,
  isOpaque,
  isPlainName,
  type Json,
  type JsonMap,
  llmUnavailable,
} from "./protocol.ts";
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

/** Members that repeat the text token by token. This form cannot be scrubbed, so they are removed. */
const TOKEN_MEMBERS = new Set(["logprobs"]);
/** Member with an embedding, as numbers or as their base64. */
const EMBEDDING = "embedding";
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

/** Characters of a text, and values, that are scrubbed between two looks at the clock. */
const PIECE = 1_024;
const VALUES = 256;

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
  let values = 0;

  const scrubText = function* (member: string, text: string): Work<string> {
    const stream = openText(options, member);
    const scrubbed = (yield* pushText(stream, text)) + stream.end();
    addCounts(leaked, stream.leaked);
    return scrubbed;
  };

  const scrubMember = function* (member: string, inner: Json): Work<[string, Json]> {
    if (TOKEN_MEMBERS.has(member)) return [member, Array.isArray(inner) ? [] : null];
    if (member === EMBEDDING) return [member, inner];
    if (isMediaMember(member, inner)) {
      assertMediaAllowed(options);
      return [member, inner];
    }
    return [isPlainName(member) ? member : yield* scrubText("", member), yield* scrub(member, inner)];
  };

  const scrub = function* (member: string, inner: Json): Work<Json> {
    values += 1;
    if (values % VALUES === 0) yield;
    if (typeof inner === "string") return isOpaque(member, inner) ? inner : yield* scrubText(member, inner);
    if (Array.isArray(inner)) {
      const items: Json[] = [];
      for (const item of inner) items.push(yield* scrub(member, item));
      return items;
    }
    if (!isMap(inner)) return inner;
    if (isMedia(inner)) {
      assertMediaAllowed(options);
      return inner;
    }
    const members: [string, Json][] = [];
    for (const [key, each] of Object.entries(inner)) members.push(yield* scrubMember(key, each));
    return Object.fromEntries(members);
  };

  return yield* scrub(name, value);
}
