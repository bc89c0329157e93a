import { ControlPlaneError, ErrorReason } from "../../errors.ts";

/** JSON value of the protocol. */
export type Json = null | boolean | number | string | readonly Json[] | JsonMap;
/** A JSON object. */
export type JsonMap = { readonly [key: string]: Json };

/** True for a JSON object, false for a list. */
export const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members with a server's bytes in base64, which clients send back. */
const BYTES = new Set(["encrypted_content", "signature", "thought_signature", "obfuscation"]);
/** Form of the protocol's member names; other names may be text of a person or a model. */
const PLAIN_NAME = /^(?!.*\d{4})[\w$-]{1,64}$/;
/** Members with an object that a model or a caller makes up, names of members included. */
const FREE_MEMBERS = new Set(["arguments", "input", "metadata", "parameters", "schema", "json_schema", "variables"]);

/** True for a member with a server's bytes. */
export const isBytes = (name: string): boolean => BYTES.has(name);

/** True if a member's name belongs to the protocol, without four digits in a row, as a group of a personal value has. */
export const isPlainName = (name: string): boolean => PLAIN_NAME.test(name);

/** True if a member's text is a JSON document. */
export const isDocument = (name: string): boolean => name === "arguments";

/** True if a member's object is made up by a model or a caller. */
export const isFree = (name: string): boolean => FREE_MEMBERS.has(name);

/** Creates the error for a part of a request that cannot be scrubbed. */
export function notScrubbable(field: string, description: string): ControlPlaneError {
  const violations = [{ field, description, reason: "NOT_SCRUBBABLE" }];
  return new ControlPlaneError(ErrorReason.NOT_SCRUBBABLE, `\`${field}\` ${description}`, { field }, { violations });
}

/** Creates the error for an upstream that does not answer or whose response cannot be scrubbed. */
export function llmUnavailable(message: string, cause?: unknown): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.LLM_UNAVAILABLE, message, {}, { cause });
}
