import { addCounts, type KindCounts, type PersonalKind } from "../text/personal-kinds.ts";
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
  readonly markIds: (json: Json) => Json;
}

/** An event of a streamed response: its optional name and its JSON. */
export interface ModelEvent {
  readonly name: string | undefined;
  readonly json: Json;
}

/** Scrubs the events of one streamed response. */
export interface EventScrubber {
  /** Takes the next event and returns the events to send. Throws LLM_UNAVAILABLE for an event that cannot be scrubbed. */
  push(name: string | undefined, json: JsonMap): readonly ModelEvent[];
  /** Returns the events held back: before `[DONE]` and at the end of the stream. */
  end(): readonly ModelEvent[];
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

/** Scrubs a whole value of a response and adds its leaks to `leaked`. */
export function scrubValue(options: ResponseOptions, value: Json, leaked: Map<PersonalKind, number>, name = ""): Json {
  const scrubText = (member: string, text: string): string => {
    const stream = openText(options, member);
    const scrubbed = stream.push(text) + stream.end();
    addCounts(leaked, stream.leaked);
    return scrubbed;
  };

  const scrubMember = (member: string, inner: Json): [string, Json] => {
    if (TOKEN_MEMBERS.has(member)) return [member, Array.isArray(inner) ? [] : null];
    if (member === EMBEDDING) return [member, inner];
    if (isMediaMember(member, inner)) {
      assertMediaAllowed(options);
      return [member, inner];
    }
    return [isPlainName(member) ? member : scrubText("", member), scrub(member, inner)];
  };

  const scrub = (member: string, inner: Json): Json => {
    if (typeof inner === "string") return isOpaque(member, inner) ? inner : scrubText(member, inner);
    if (Array.isArray(inner)) return inner.map((item: Json) => scrub(member, item));
    if (!isMap(inner)) return inner;
    if (isMedia(inner)) {
      assertMediaAllowed(options);
      return inner;
    }
    return Object.fromEntries(Object.entries(inner).map(([key, each]) => scrubMember(key, each)));
  };

  return scrub(name, value);
}
