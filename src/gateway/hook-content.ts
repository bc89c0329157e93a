import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { JsonFault, readJson } from "../json/read-json.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { contentFrom, contentOfTool, type ResultContent, TEXT_BOUNDS } from "./result-content.ts";

/** Returns the text that a model reads of the event after a tool; undefined if it holds none. */
export async function contentOfEvent(event: JsonObject): Promise<ResultContent | undefined> {
  const hasFailed = ownValue(event, "hook_event_name") === "PostToolUseFailure";
  const told = hasFailed ? ownValue(event, "error") : ownValue(event, "tool_response");
  const content = await contentOfAnswer(told ?? undefined);
  if (content === undefined) return undefined;
  const isCut = content.isCut || ownValue(event, "is_cut") === true;
  const isText = ownValue(event, "is_text") === true || (typeof told === "string" && (await isTextOfBlocks(told)));
  return { ...content, isError: content.isError || hasFailed, isMixed: content.isMixed || isText, isCut };
}

/** Returns the text of what a tool answered: of an MCP server's tool its blocks, of any other its text, or its JSON. */
function contentOfAnswer(answer: JsonValue | undefined): Promise<ResultContent | undefined> {
  if (Array.isArray(answer) && answer.every(isBlock)) return contentOfTool({ content: answer });
  if (answer === undefined || !isJsonObject(answer)) return contentFrom(answer, false);
  if (isOfServer(answer)) return contentOfTool(answer);
  const { isError = false, ...members } = answer;
  return contentFrom(Object.keys(members).length === 0 ? undefined : members, isError === true);
}

/** Tests for the JSON of an MCP server's blocks, as which earlier hooks send a long answer without saying so. */
async function isTextOfBlocks(text: string): Promise<boolean> {
  if (!/^\s*[[{]/u.test(text)) return false;
  try {
    const value = (await readJson(text, TEXT_BOUNDS)) as JsonValue;
    return Array.isArray(value) ? value.some(isBlock) : isJsonObject(value) && isOfServer(value);
  } catch (error) {
    if (error instanceof JsonFault) return false;
    throw error;
  }
}

const isBlock = (value: JsonValue): boolean => isJsonObject(value) && typeof ownValue(value, "type") === "string";

const isOfServer = (answer: JsonObject): boolean =>
  Array.isArray(ownValue(answer, "content")) || ownValue(answer, "structuredContent") !== undefined;
