import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { writeJson } from "../json/write-json.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { RpcResponse } from "./messages.ts";

/** Text that a model reads in a result, as a session observes it. */
export interface ResultContent {
  /** Text, or the text of JSON. At most 1 MiB of UTF-8. */
  readonly content: string;
  /** True for a result that says that its call failed. */
  readonly isError: boolean;
  /** True if the content joins several parts, so that members of one could be taken for members of another. */
  readonly isMixed: boolean;
  /** True if there was more content. */
  readonly isCut: boolean;
}

/** Maximum bytes of UTF-8 of a content. */
export const MAX_CONTENT_BYTES = 1_048_576;
/** Kinds of content blocks without text. */
const WITHOUT_TEXT: readonly unknown[] = ["image", "audio"];
/** Members with bytes in Base64. */
const BYTES_MEMBERS: readonly string[] = ["data", "blob", "base64"];
/** Base64 that is longer than any value that is compared. */
const BASE64 = /^[\w+/=-]{257,}$/;

/** Returns the text of a response to a request of a method; undefined if it holds none. */
export async function contentOfResponse(
  method: string,
  { result = {}, error }: RpcResponse,
): Promise<ResultContent | undefined> {
  if (error !== undefined) {
    const data = error.data === undefined ? [] : [error.data];
    return contentFrom([error.message, ...data], true);
  }
  if (ownValue(result, "resultType") === "input_required")
    return contentOfTool(result, [ownValue(result, "inputRequests")]);
  switch (method) {
    case "tools/call":
    case "tasks/get":
    case "tasks/result":
    case "tasks/cancel":
      return contentOfTask(result);
    case "resources/read":
      return contentFrom(listAt(result, "contents").map(resourcePart), false);
    case "prompts/get": {
      const messages = listAt(result, "messages").map((each) => blockPart(memberOf(each, "content")));
      return contentFrom([ownValue(result, "description"), ...messages], false);
    }
    default: {
      const { _meta: _, ...members } = result;
      return contentFrom(Object.keys(members).length === 0 ? [] : [members], false);
    }
  }
}

/** Returns the text of a tool's result, which may be or hold a task, and a task the result. */
function contentOfTask(result: JsonObject): Promise<ResultContent | undefined> {
  const [inner, task] = [ownValue(result, "result"), ownValue(result, "task")];
  const told = [ownValue(result, "statusMessage"), ownValue(result, "error"), memberOf(task, "statusMessage")];
  const isBare = ["content", "structuredContent"].every((member) => ownValue(result, member) === undefined);
  if (isBare && isJsonObject(inner ?? null)) return contentOfTool(inner as JsonObject, told);
  return contentOfTool(result, [...told, inner]);
}

/**
 * Returns the text of a tool's result: of its blocks, and of `structuredContent`, which alone is given where the blocks only repeat
 * it, so that its members can be told apart.
 */
export async function contentOfTool(
  result: JsonObject,
  besides: readonly (JsonValue | undefined)[] = [],
): Promise<ResultContent | undefined> {
  const isError = ownValue(result, "isError") === true;
  const structured = ownValue(result, "structuredContent");
  const parts = [...besides, ...listAt(result, "content").map(blockPart)].filter((part) => part !== undefined);
  if (structured === undefined || structured === null) return contentFrom(parts, isError);
  return contentFrom(areRepeats(parts, structured) ? [structured] : [structured, ...parts], isError);
}

/** Returns a content from its parts: texts as they are, anything else as JSON without bytes. Parts without a text are left out. */
export async function contentFrom(
  parts: readonly (JsonValue | undefined)[],
  isError: boolean,
): Promise<ResultContent | undefined> {
  const texts: string[] = [];
  const isOne = parts.filter((part) => part !== undefined && part !== "").length === 1;
  for (const part of parts) {
    if (part === undefined || part === "") continue;
    if (typeof part === "string") texts.push(part);
    else {
      const plain = withoutBytes(part);
      // Among other parts, its texts stand without the escapes of JSON, as the model reads them.
      texts.push(...(isOne ? [] : textsIn(plain)), await writeJson(plain));
    }
  }
  if (texts.length === 0) return undefined;
  const text = texts.join("\n");
  const content = cutToBytes(text);
  return { content, isError, isMixed: !isOne, isCut: content.length < text.length };
}

/** Cuts a text to the maximum of a content. */
function cutToBytes(text: string): string {
  if (text.length * 3 <= MAX_CONTENT_BYTES || Buffer.byteLength(text) <= MAX_CONTENT_BYTES) return text;
  const bytes = Buffer.from(text.slice(0, MAX_CONTENT_BYTES)).subarray(0, MAX_CONTENT_BYTES);
  // The last character may be cut in two, and its replacement may be longer.
  return bytes.toString("utf8").slice(0, -1);
}

/** Tests whether texts only repeat structured content: as a whole, its only member `result`, or an element of that. */
function areRepeats(parts: readonly JsonValue[], structured: JsonValue): boolean {
  const texts = parts.filter((part) => typeof part === "string");
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (texts.length < parts.length || length > MAX_CONTENT_BYTES) return false;
  const only =
    isJsonObject(structured) && Object.keys(structured).length === 1 ? ownValue(structured, "result") : undefined;
  const repeated = [structured, only, ...(Array.isArray(only) ? only : [])].filter((value) => value !== undefined);
  try {
    const known = new Set(repeated.map((value) => canonicalJson(value)));
    return texts.every(
      (text) => known.has(canonicalJson(text)) || known.has(canonicalJson(JSON.parse(text) as JsonValue)),
    );
  } catch {
    return false;
  }
}

/** Returns the text of a content block; undefined for an image, a sound, and a resource of bytes. */
function blockPart(block: JsonValue | undefined): JsonValue | undefined {
  if (block === undefined || Array.isArray(block)) return block;
  if (!isJsonObject(block)) return block;
  const type = ownValue(block, "type");
  if (WITHOUT_TEXT.includes(type)) return undefined;
  if (type === "text") return ownValue(block, "text");
  if (type === "resource") return resourcePart(ownValue(block, "resource"));
  const { _meta: _, type: __, annotations: ___, ...members } = block;
  return members;
}

/** Returns the text of a resource; of one of bytes its address. */
function resourcePart(resource: JsonValue | undefined): JsonValue | undefined {
  return memberOf(resource, "text") ?? memberOf(resource, "uri");
}

function memberOf(value: JsonValue | undefined, member: string): JsonValue | undefined {
  return value !== undefined && isJsonObject(value) ? ownValue(value, member) : undefined;
}

function listAt(value: JsonObject, member: string): readonly JsonValue[] {
  const list = ownValue(value, member);
  return Array.isArray(list) ? list : [];
}

/** Leaves members with bytes in Base64 out of a value. */
function withoutBytes(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withoutBytes);
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).filter(
    ([name, member]) => !(BYTES_MEMBERS.includes(name) && typeof member === "string" && BASE64.test(member)),
  );
  return Object.fromEntries(members.map(([name, member]) => [name, withoutBytes(member)]));
}

/** Lists the texts in a value. */
function textsIn(value: JsonValue): readonly string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return isJsonObject(value) ? Object.values(value).flatMap(textsIn) : [];
}
