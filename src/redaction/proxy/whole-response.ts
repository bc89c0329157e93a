import type { Readable } from "node:stream";
import { Turns } from "../../async/turns.ts";
import { doInTurns } from "../../async/work.ts";
import { ControlPlaneError } from "../../errors.ts";
import { writeJson } from "../../json/write-json.ts";
import type { KindCounts, PersonalKind } from "../../text/personal-kinds.ts";
import { isJsonType, mediaTypeOf, plainOpenAiError } from "./http-messages.ts";
import { readModelJson } from "./model-json.ts";
import { type Json, llmUnavailable } from "./protocol.ts";
import { responseIdOf } from "./responses-stream.ts";
import { type ResponseOptions, scrubValue } from "./scrub-response.ts";
import type { UpstreamResponse } from "./upstream.ts";

/** A whole scrubbed response. */
export interface WholeResponse {
  readonly contentType: string;
  readonly body: string;
  readonly leaked: KindCounts;
  /** Id of a response of `/responses`; undefined for other paths. */
  readonly responseId: string | undefined;
}

/** Maximum bytes of a response without streaming. */
export const MAX_RESPONSE_BYTES = 16_777_216;
/** Bytes above which an answer is decoded in a turn of the event loop of its own. */
const LARGE = 262_144;
/** Maximum characters of an error in plain text. */
const MAX_ERROR_TEXT = 1_000;

async function readText(body: Readable, hold: (bytes: number) => void): Promise<string> {
  const chunks: Buffer[] = [];
  const turns = new Turns();
  let size = 0;
  try {
    for await (const chunk of body) {
      // Answers that arrive at the same time would otherwise be read in one turn.
      await turns.giveWay();
      size += (chunk as Buffer).length;
      if (size > MAX_RESPONSE_BYTES) throw llmUnavailable("the model's service sent an answer that is too large");
      hold((chunk as Buffer).length);
      chunks.push(chunk as Buffer);
    }
  } catch (error) {
    if (error instanceof ControlPlaneError) throw error;
    throw llmUnavailable("the answer of the model's service broke off", error);
  }
  if (size > LARGE) await turns.next();
  return new TextDecoder().decode(Buffer.concat(chunks));
}

async function scrubJson(options: ResponseOptions, json: Json): Promise<WholeResponse> {
  const leaked = new Map<PersonalKind, number>();
  const scrubbed = await doInTurns(scrubValue(options, json, leaked));
  const marked = await doInTurns(options.markIds(scrubbed));
  const body = await writeJson(marked);
  return { contentType: "application/json", body, leaked, responseId: responseIdOf(json) };
}

async function scrubText(options: ResponseOptions, text: string): Promise<WholeResponse> {
  const leaked = new Map<PersonalKind, number>();
  const body = (await doInTurns(scrubValue(options, text, leaked))) as string;
  return { contentType: "text/plain; charset=utf-8", body, leaked, responseId: undefined };
}

/** Cuts a text between two words, since a part of our key or of a personal value would not be found. */
const startOf = (text: string): string =>
  text.length <= MAX_ERROR_TEXT ? text.trim() : text.slice(0, MAX_ERROR_TEXT).replace(/\S+$/, "…").trim();

/** True for media types of plain text, JSON lines included. */
const isTextType = (type: string): boolean => type.startsWith("text/") || /^application\/(jsonl|x-ndjson)$/.test(type);

/**
 * Reads and scrubs a whole response. Rejects with LLM_UNAVAILABLE if it is neither JSON nor text, or breaks off, and with any error
 * of `hold`, which counts bytes as they arrive. Converts errors in other forms to OpenAI's form.
 */
export async function readWholeResponse(
  options: ResponseOptions,
  { status, headers, body }: UpstreamResponse,
  hold: (bytes: number) => void,
): Promise<WholeResponse> {
  const type = mediaTypeOf(headers);
  const isError = status >= 400;
  if (!isError && !isJsonType(type) && !isTextType(type)) {
    const isEmpty = (await readText(body, hold)) === "";
    if (isEmpty) return { contentType: "text/plain", body: "", leaked: new Map(), responseId: undefined };
    throw llmUnavailable("the model's service answered with neither JSON nor text, which cannot be scrubbed");
  }
  const text = await readText(body, hold);
  const json = isJsonType(type) ? await readModelJson(text) : undefined;
  if (json !== undefined) return scrubJson(options, json);
  if (isError) return scrubJson(options, plainOpenAiError(status, startOf(text)).body);
  if (isJsonType(type) && text !== "") throw llmUnavailable("the model's service sent an answer that is not JSON");
  return scrubText(options, text);
}
