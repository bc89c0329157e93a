import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** JSON as the protocol carries it. */
export type Json = null | boolean | number | string | readonly Json[] | JsonMap;
/** An object of it. */
export type JsonMap = { readonly [key: string]: Json };

/** Whether a value is an object and no list. */
export const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members whose values are words of the protocol or names that a server made, never text of a person or a model. */
const OPAQUE = new Set([
  ...["id", "object", "type", "role", "model", "status", "service_tier", "system_fingerprint", "finish_reason"],
  ...["call_id", "tool_call_id", "item_id", "response_id", "previous_response_id", "conversation", "file_id"],
  ...["encrypted_content", "signature", "thought_signature", "obfuscation", "encoding_format"],
]);
/** What such a value looks like. Anything else below these names is scrubbed like any text. */
const OPAQUE_TEXT = /^(?=[\w.:/=+-]*[A-Za-z])[\w.:/=+-]+$/;
/** A member name of the protocol; others may be text of a person or a model. */
const PLAIN_NAME = /^[\w$-]{1,64}$/;
/** Parts of messages that are no text. */
const MEDIA_TYPES = new Set([
  ...["image_url", "input_image", "output_image", "input_audio", "output_audio", "audio", "image", "video_url"],
  ...["file", "input_file", "computer_screenshot", "image_generation_call", "image_file", "input_video", "document"],
]);
/** Members whose text is media wherever they stand. */
const MEDIA_TEXTS = new Set(["b64_json", "file_data", "partial_image_b64", "image_url", "image"]);
/** Members that hold audio, or say in which voice to answer. */
const AUDIO_MEMBERS = new Set(["audio", "input_audio"]);

/** Whether a member's text is the protocol's own and passes as it is. */
export const isOpaque = (name: string, text: string): boolean => OPAQUE.has(name) && OPAQUE_TEXT.test(text);

/** Whether a member's name is the protocol's own. */
export const isPlainName = (name: string): boolean => PLAIN_NAME.test(name);

/** Whether a member's text is a JSON document of its own. */
export const isDocument = (name: string): boolean => name === "arguments";

/** Whether a value is a part with an image, audio or a file. */
export function isMedia(value: JsonMap): boolean {
  return typeof value.type === "string" && MEDIA_TYPES.has(value.type);
}

/** Whether a member is media by its name. A schema may have a property of such a name. */
export function isMediaMember(name: string, value: Json): boolean {
  if (typeof value === "string") return MEDIA_TEXTS.has(name) && value !== "";
  if (!AUDIO_MEMBERS.has(name) || !isMap(value)) return false;
  return typeof value.data === "string" || typeof value.voice === "string";
}

/** The error for what cannot be scrubbed in a request. */
export function notScrubbable(field: string, description: string): ControlPlaneError {
  const violations = [{ field, description, reason: "NOT_SCRUBBABLE" }];
  return new ControlPlaneError(ErrorReason.NOT_SCRUBBABLE, `\`${field}\` ${description}`, { field }, { violations });
}

/** The error for an upstream that did not answer, or with what cannot be scrubbed. */
export function llmUnavailable(message: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.LLM_UNAVAILABLE, message, {}, { cause });
}
