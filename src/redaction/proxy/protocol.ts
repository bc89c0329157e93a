import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** JSON value of the protocol. */
export type Json = null | boolean | number | string | readonly Json[] | JsonMap;
/** A JSON object. */
export type JsonMap = { readonly [key: string]: Json };

/** True for a JSON object, false for a list. */
export const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members with a server's bytes, which must come back unchanged. */
const BYTES = new Set(["encrypted_content", "signature", "thought_signature", "obfuscation"]);
/** Form of these bytes: base64, longer than any personal value. Any other text in these members is scrubbed. */
const BYTES_TEXT = /^[\w+/=-]{40,}$/;
/** Members of responses with words of the protocol or identifiers of a server, but never text of a person or a model. */
const WORDS = new Set([
  "id",
  "object",
  "type",
  "role",
  "model",
  "status",
  "service_tier",
  "system_fingerprint",
  "finish_reason",
  "call_id",
  "tool_call_id",
  "item_id",
  "response_id",
  "previous_response_id",
  "conversation",
  "file_id",
  "encoding_format",
  ...BYTES,
]);
/** Form of these values. Any other text in these members is scrubbed. */
const WORDS_TEXT = /^(?=[\w.:/=+-]*[A-Za-z])[\w.:/=+-]+$/;
/** Form of the protocol's member names; other names may be text of a person or a model. */
const PLAIN_NAME = /^[\w$-]{1,64}$/;
/** Types of message parts with media. */
const MEDIA_TYPES = new Set([
  "image_url",
  "input_image",
  "output_image",
  "input_audio",
  "output_audio",
  "audio",
  "image",
  "video_url",
  "file",
  "input_file",
  "computer_screenshot",
  "image_generation_call",
  "image_file",
  "input_video",
  "document",
]);
/** Members whose text is media wherever they occur. */
const MEDIA_TEXTS = new Set(["b64_json", "file_data", "partial_image_b64", "image_url", "image"]);
/** Members with audio, or with the voice of the answer. */
const AUDIO_MEMBERS = new Set(["audio", "input_audio"]);

/** True if the text of a request's member is a server's bytes, which pass unscrubbed. */
export const isBytes = (name: string, text: string): boolean => BYTES.has(name) && BYTES_TEXT.test(text);

/** True if the text of a response's member belongs to the protocol and passes unscrubbed. */
export const isOpaque = (name: string, text: string): boolean => WORDS.has(name) && WORDS_TEXT.test(text);

/** Media as a `data:` URL. */
const MEDIA_URL =
  /^data:(?:image|audio|video|font|application\/(?:pdf|octet-stream|zip))[/\w.+;=-]*;base64,[\w+/=\s-]*$/i;
/** Media without a URL: base64, longer than any personal value. */
const MEDIA_BYTES = /^[\w+/=-]{64,}$/;
const DATA_URL = /^data:([^,]*),(.*)$/is;

/** True if a text is media, which no detector reads. */
export const isMediaText = (text: string): boolean => MEDIA_URL.test(text) || MEDIA_BYTES.test(text);

/** Returns the text in a `data:` URL; undefined for any other text. */
export function textOfDataUrl(url: string): string | undefined {
  const [, parameters = "", data] = DATA_URL.exec(url) ?? [];
  if (data === undefined) return undefined;
  if (/;base64$/i.test(parameters)) return Buffer.from(data, "base64").toString("utf8");
  try {
    return decodeURIComponent(data);
  } catch {
    return data;
  }
}

/** True if a member's name belongs to the protocol. */
export const isPlainName = (name: string): boolean => PLAIN_NAME.test(name);

/** True if a member's text is a JSON document. */
export const isDocument = (name: string): boolean => name === "arguments";

/** True if a value is a message part with an image, audio or a file. */
export function isMedia(value: JsonMap): boolean {
  return typeof value.type === "string" && MEDIA_TYPES.has(value.type);
}

/** True if a member is media by name and value: a schema may have a property of such a name. */
export function isMediaMember(name: string, value: Json): boolean {
  if (typeof value === "string") return MEDIA_TEXTS.has(name) && value !== "";
  if (!AUDIO_MEMBERS.has(name) || !isMap(value)) return false;
  return typeof value.data === "string" || typeof value.voice === "string";
}

/** Creates the error for a part of a request that cannot be scrubbed. */
export function notScrubbable(field: string, description: string): ControlPlaneError {
  const violations = [{ field, description, reason: "NOT_SCRUBBABLE" }];
  return new ControlPlaneError(ErrorReason.NOT_SCRUBBABLE, `\`${field}\` ${description}`, { field }, { violations });
}

/** Creates the error for an upstream that does not answer or whose response cannot be scrubbed. */
export function llmUnavailable(message: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.LLM_UNAVAILABLE, message, {}, { cause });
}
