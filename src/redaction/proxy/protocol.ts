import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** JSON as the protocol carries it. */
export type Json = null | boolean | number | string | readonly Json[] | JsonMap;
/** A JSON object. */
export type JsonMap = { readonly [key: string]: Json };

/** True for a JSON object, false for a list. */
export const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members with words of the protocol or identifiers of a server, never text of a person or a model. */
const OPAQUE = new Set([
  ...["id", "object", "type", "role", "model", "status", "service_tier", "system_fingerprint", "finish_reason"],
  ...["call_id", "tool_call_id", "item_id", "response_id", "previous_response_id", "conversation", "file_id"],
  ...["encrypted_content", "signature", "thought_signature", "obfuscation", "encoding_format"],
]);
/** Form of such a value. Any other text in these members is scrubbed. */
const OPAQUE_TEXT = /^(?=[\w.:/=+-]*[A-Za-z])[\w.:/=+-]+$/;
/** Form of the protocol's member names; others may be text of a person or a model. */
const PLAIN_NAME = /^[\w$-]{1,64}$/;
/** Types of message parts with media. */
const MEDIA_TYPES = new Set([
  ...["image_url", "input_image", "output_image", "input_audio", "output_audio", "audio", "image", "video_url"],
  ...["file", "input_file", "computer_screenshot", "image_generation_call", "image_file", "input_video", "document"],
]);
/** Members whose text is media wherever they occur. */
const MEDIA_TEXTS = new Set(["b64_json", "file_data", "partial_image_b64", "image_url", "image"]);
/** Members with audio, or with the voice to answer in. */
const AUDIO_MEMBERS = new Set(["audio", "input_audio"]);

/** True if a member's text is the protocol's own and passes unscrubbed. */
export const isOpaque = (name: string, text: string): boolean => OPAQUE.has(name) && OPAQUE_TEXT.test(text);

/** True if a member's name is the protocol's own. */
export const isPlainName = (name: string): boolean => PLAIN_NAME.test(name);

/** True if a member's text is a JSON document of its own. */
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

/** Creates the error for an upstream that does not answer, or whose response cannot be scrubbed. */
export function llmUnavailable(message: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.LLM_UNAVAILABLE, message, {}, { cause });
}
