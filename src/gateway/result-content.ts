import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { readJson } from "../json/read-json.ts";
import { writeJson } from "../json/write-json.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { RpcResponse } from "./messages.ts";
import type { OpenCall } from "./sessions.ts";

/** Text that a model reads in a result, as a session observes it. */
export interface ResultContent {
  /** Text, or the text of JSON. At most 1 MiB of UTF-8. */
  readonly content: string;
  /** True for a result that says that its call failed. */
  readonly isError: boolean;
  /** True if members in the content may be taken for the tool's own: it joins several parts, or a part beside its result. */
  readonly isMixed: boolean;
  /** True if there was more content. */
  readonly isCut: boolean;
}

/** Part of a result. */
interface Part {
  readonly value: JsonValue;
  /** True if the members in it are the tool's own, which its registration names. */
  readonly isOwn: boolean;
}

/** Maximum bytes of UTF-8 of a content. */
export const MAX_CONTENT_BYTES = 1_048_576;
/** Bounds of a text that is read as JSON. */
export const TEXT_BOUNDS = { maxDepth: 64, maxValues: 1_048_576, hasUniqueMembers: true };
/** Kinds of content blocks without text. */
const WITHOUT_TEXT: readonly unknown[] = ["image", "audio"];
/** Members of results, of blocks and of resources that no model reads. */
const UNREAD_MEMBERS = ["_meta", "isError", "resultType"];
const UNREAD_OF_BLOCKS = ["_meta", "type", "annotations"];
const UNREAD_OF_RESOURCES = ["_meta", "annotations", "mimeType", "blob"];
/** Members that say how a task stands. */
const TASK_MEMBERS = [
  "taskId",
  "status",
  "createdAt",
  "lastUpdatedAt",
  "ttl",
  "ttlMs",
  "pollInterval",
  "pollIntervalMs",
];
/** Members with bytes in Base64. */
const BYTES_MEMBERS: readonly string[] = ["data", "blob", "base64"];
/** Base64 that is longer than any value that is compared. */
const BASE64 = /^[\w+/=-]{257,}$/;

/** Returns the text of a response to a call; undefined if it holds none. */
export async function contentOfResponse(
  { method, uri }: Pick<OpenCall, "method" | "uri">,
  { result = {}, error }: RpcResponse,
): Promise<ResultContent | undefined> {
  if (error !== undefined) return contentOfParts([...besides(error.message), ...besides(error.data)], true);
  if (ownValue(result, "resultType") === "input_required") return contentOfTool(without(result, ["requestState"]));
  switch (method) {
    case "tools/call":
      return contentOfTool(ownValue(result, "resultType") === "task" ? without(result, TASK_MEMBERS) : result);
    case "tasks/get":
    case "tasks/result":
    case "tasks/cancel":
      return contentOfTask(result);
    case "resources/read":
      return contentOfParts(
        listAt(result, "contents").flatMap((resource) => resourceParts(resource, uri)),
        false,
      );
    case "prompts/get": {
      const messages = listAt(result, "messages").flatMap((each) => blockParts(memberOf(each, "content")));
      return contentOfParts([...besides(ownValue(result, "description")), ...messages], false);
    }
    default: {
      const { _meta: _, ...members } = result;
      return contentFrom(Object.keys(members).length === 0 ? undefined : members, false);
    }
  }
}

/** Returns the text of a task, and of the result that it may hold. */
async function contentOfTask(result: JsonObject): Promise<ResultContent | undefined> {
  const { result: inner = null, ...task } = without(result, TASK_MEMBERS);
  if (!isJsonObject(inner)) return contentOfTool({ ...task, result: inner });
  const isError = [task, inner].some((each) => ownValue(each, "isError") === true);
  return contentOfParts([...(await toolParts(task)), ...(await toolParts(inner))], isError);
}

/** Returns the text of a tool's result. */
export async function contentOfTool(result: JsonObject): Promise<ResultContent | undefined> {
  return contentOfParts(await toolParts(result), ownValue(result, "isError") === true);
}

/**
 * Returns the parts of a tool's result: its blocks, any other members, and `structuredContent`, which alone is given where the blocks
 * only repeat it, so that its members can be told apart.
 */
async function toolParts({ content, structuredContent, ...members }: JsonObject): Promise<readonly Part[]> {
  const blocks = Array.isArray(content) ? content.flatMap(blockParts) : besides(content);
  const { task = null, ...others } = without(members, UNREAD_MEMBERS);
  const state = isJsonObject(task) ? without(task, ["_meta", ...TASK_MEMBERS]) : task;
  const parts = [...besides(state), ...besides(others), ...blocks];
  if (structuredContent === undefined || structuredContent === null) return parts;
  const own = { value: structuredContent, isOwn: true };
  return (await areRepeats(parts, structuredContent)) ? [own] : [own, ...parts];
}

/** Returns a content from a value whose members are the tool's own: a text as it is, anything else as JSON without bytes. */
export function contentFrom(value: JsonValue | undefined, isError: boolean): Promise<ResultContent | undefined> {
  return contentOfParts(value === undefined ? [] : [{ value, isOwn: true }], isError);
}

async function contentOfParts(given: readonly Part[], isError: boolean): Promise<ResultContent | undefined> {
  const parts = given.filter(({ value }) => value !== "");
  const texts: string[] = [];
  for (const { value } of parts) {
    if (typeof value === "string") texts.push(value);
    else {
      const plain = withoutBytes(value);
      // Among other parts, its texts stand without the escapes of JSON, as the model reads them.
      texts.push(...(parts.length === 1 ? [] : textsIn(plain)), await writeJson(plain));
    }
  }
  if (texts.length === 0) return undefined;
  const text = texts.join("\n");
  const content = cutToBytes(text);
  const isMixed = parts.length > 1 || parts[0]?.isOwn !== true;
  return { content, isError, isMixed, isCut: content.length < text.length };
}

/** Cuts a text to the maximum of a content. */
function cutToBytes(text: string): string {
  if (text.length * 3 <= MAX_CONTENT_BYTES || Buffer.byteLength(text) <= MAX_CONTENT_BYTES) return text;
  const bytes = Buffer.from(text.slice(0, MAX_CONTENT_BYTES)).subarray(0, MAX_CONTENT_BYTES);
  // The last character may be cut in two, and its replacement may be longer.
  return bytes.toString("utf8").slice(0, -1);
}

/** Tests whether texts only repeat structured content: as a whole, its only member `result`, or an element of that. */
async function areRepeats(parts: readonly Part[], structured: JsonValue): Promise<boolean> {
  const texts = parts.flatMap(({ value, isOwn }) => (isOwn && typeof value === "string" ? [value] : []));
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (texts.length < parts.length || length > MAX_CONTENT_BYTES) return false;
  const only =
    isJsonObject(structured) && Object.keys(structured).length === 1 ? ownValue(structured, "result") : undefined;
  const repeated = [structured, only, ...(Array.isArray(only) ? only : [])].filter((value) => value !== undefined);
  try {
    const known = new Set(repeated.map((value) => canonicalJson(value)));
    for (const text of texts) {
      if (known.has(canonicalJson(text))) continue;
      // Of a member that is named twice, structured content holds the last value alone.
      if (!known.has(canonicalJson((await readJson(text, TEXT_BOUNDS)) as JsonValue))) return false;
    }
    return true;
  } catch {
    return false;
  }
}

/** Returns the parts of a content block. An image and a sound have none. */
function blockParts(block: JsonValue | undefined): readonly Part[] {
  if (block === undefined || !isJsonObject(block)) return besides(block);
  const type = ownValue(block, "type");
  if (WITHOUT_TEXT.includes(type)) return [];
  if (type === "resource") return resourceParts(ownValue(block, "resource"));
  const members = without(block, UNREAD_OF_BLOCKS);
  return type === "text" ? textParts(members) : besides(members);
}

/** Returns the parts of a resource. `requested`: the address that the client asks for, which tells it nothing. */
function resourceParts(resource: JsonValue | undefined, requested?: JsonValue): readonly Part[] {
  if (resource === undefined || !isJsonObject(resource)) return besides(resource);
  const isRequested = requested !== undefined && ownValue(resource, "uri") === requested;
  return textParts(without(resource, [...UNREAD_OF_RESOURCES, ...(isRequested ? ["uri"] : [])]));
}

function textParts({ text, ...others }: JsonObject): readonly Part[] {
  const own = typeof text === "string" ? [{ value: text, isOwn: true }] : besides(text);
  return [...own, ...besides(others)];
}

/** Returns a part whose members are not the tool's own, unless it is empty. */
function besides(value: JsonValue | undefined): readonly Part[] {
  const isEmpty = value === undefined || value === null || (isJsonObject(value) && Object.keys(value).length === 0);
  return isEmpty ? [] : [{ value, isOwn: false }];
}

/** Leaves members of a value out, and the ones that are null, as which some servers write members that they leave out. */
function without(value: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([name, member]) => member !== null && !names.includes(name)));
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
