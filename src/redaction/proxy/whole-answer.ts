import type { Readable } from "node:stream";
import { ControlPlaneError } from "../../errors.ts";
import type { PersonalKind } from "../text/types.ts";
import { isJsonType, mediaTypeOf } from "./headers.ts";
import { plainOpenAiError } from "./openai-error.ts";
import { type Json, llmUnavailable } from "./protocol.ts";
import { responseIdOf } from "./responses-stream.ts";
import { type AnswerOptions, scrubAnswer } from "./scrub-answer.ts";
import type { UpstreamAnswer } from "./upstream.ts";

/** A whole answer, scrubbed. */
export interface WholeAnswer {
  readonly contentType: string;
  readonly body: string;
  readonly leaked: ReadonlyMap<PersonalKind, number>;
  /** The id of an answer of `responses`; undefined for any other. */
  readonly responseId: string | undefined;
}

/** Bytes of an answer that is not streamed, at most. */
const MAX_ANSWER_BYTES = 67_108_864;
/** Characters of an error that came as plain text. */
const MAX_ERROR_TEXT = 1_000;

async function textOf(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      size += (chunk as Buffer).length;
      if (size > MAX_ANSWER_BYTES) throw llmUnavailable("the model's service sent an answer that is too large");
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
    throw llmUnavailable("the answer of the model's service broke off", error);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function jsonAnswer(options: AnswerOptions, json: Json): WholeAnswer {
  const leaked = new Map<PersonalKind, number>();
  try {
    const body = JSON.stringify(scrubAnswer(options, json, leaked));
    return { contentType: "application/json", body, leaked, responseId: responseIdOf(json) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw llmUnavailable("the model's service sent an answer that nests too deeply");
  }
}

/** Whether a media type is text that is scrubbed line by line of nothing but itself. */
const isTextType = (type: string): boolean => type.startsWith("text/") || /^application\/(jsonl|x-ndjson)$/.test(type);

/**
 * Reads an answer whole and scrubs it. What is neither JSON nor text is LLM_UNAVAILABLE, and so is one that breaks off; an
 * error of the model's service in another form becomes one of OpenAI's form.
 */
export async function wholeAnswer(
  options: AnswerOptions,
  { status, headers, body }: UpstreamAnswer,
): Promise<WholeAnswer> {
  const type = mediaTypeOf(headers);
  const isError = status >= 400;
  if (!isError && !isJsonType(type) && !isTextType(type)) {
    const isEmpty = (await textOf(body)) === "";
    if (isEmpty) return { contentType: "text/plain", body: "", leaked: new Map(), responseId: undefined };
    throw llmUnavailable("the model's service answered with what is neither JSON nor text and cannot be scrubbed");
  }
  const text = await textOf(body);
  const json = isJsonType(type) ? parsed(text) : undefined;
  if (json !== undefined) return jsonAnswer(options, json);
  if (isError) return jsonAnswer(options, plainOpenAiError(status, text.slice(0, MAX_ERROR_TEXT).trim()).body);
  if (isJsonType(type) && text !== "") throw llmUnavailable("the model's service sent an answer that is no JSON");
  const scrubbed = jsonAnswer(options, text);
  return { ...scrubbed, contentType: "text/plain; charset=utf-8", body: JSON.parse(scrubbed.body) as string };
}
