import type { PersonalKind } from "../text/types.ts";
import { openJsonText } from "./json-text.ts";
import {
  isDocument,
  isMap,
  isMedia,
  isMediaMember,
  isOpaque,
  isPlainName,
  type Json,
  llmUnavailable,
} from "./protocol.ts";
import { type AnswerTexts, addCounts, openPlainText, type TextStream } from "./text-stream.ts";

/** How an answer is scrubbed. */
export interface AnswerOptions extends AnswerTexts {
  /** Whether the request asked for answers that are JSON documents. */
  readonly isJson: boolean;
  /** Whether images, audio and files pass as they are; else the answer is refused. */
  readonly allowMedia: boolean;
}

/** Members that repeat the text token by token, in a form that is not scrubbed: they are left out. */
const TOKEN_TEXTS = new Set(["logprobs"]);
/** Members that hold an embedding, as numbers or as base64 of them. */
const EMBEDDING = "embedding";
/** Members whose text is what the model was asked for. */
const ANSWER_TEXTS = new Set(["content", "text", "output_text", "delta"]);

/** Opens the stream of a member's text: of the document that it is, or of plain text. */
export function openText(options: AnswerOptions, name: string): TextStream {
  const isJson = isDocument(name) || (options.isJson && ANSWER_TEXTS.has(name));
  return isJson ? openJsonText(options) : openPlainText(options);
}

/** The error for an answer with media in it. */
export const mediaRefused = () =>
  llmUnavailable("the model answered with an image, audio or a file, which cannot be scrubbed");

/** Scrubs one whole value of an answer; `leaked` is counted up. Gives the same value when there was nothing to do. */
export function scrubAnswer(options: AnswerOptions, value: Json, leaked: Map<PersonalKind, number>, name = ""): Json {
  const scrubText = (member: string, text: string): string => {
    const stream = openText(options, member);
    const scrubbed = stream.push(text) + stream.end();
    addCounts(leaked, stream.leaked);
    return scrubbed;
  };

  const scrubMember = (member: string, inner: Json): [string, Json] => {
    if (TOKEN_TEXTS.has(member)) return [member, Array.isArray(inner) ? [] : null];
    if (member === EMBEDDING) return [member, inner];
    if (isMediaMember(member, inner)) {
      if (!options.allowMedia) throw mediaRefused();
      return [member, inner];
    }
    return [isPlainName(member) ? member : scrubText("", member), scrub(member, inner)];
  };

  const scrub = (member: string, inner: Json): Json => {
    if (typeof inner === "string") return isOpaque(member, inner) ? inner : scrubText(member, inner);
    if (Array.isArray(inner)) return inner.map((item: Json) => scrub(member, item));
    if (!isMap(inner)) return inner;
    if (isMedia(inner)) {
      if (!options.allowMedia) throw mediaRefused();
      return inner;
    }
    return Object.fromEntries(Object.entries(inner).map(([key, each]) => scrubMember(key, each)));
  };

  return scrub(name, value);
}
