import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { contentFrom, contentOfTool, type ResultContent } from "./result-content.ts";

/** Returns the text that a model reads of the event after a tool; undefined if it holds none. */
export async function contentOfEvent(event: JsonObject): Promise<ResultContent | undefined> {
  const hasFailed = ownValue(event, "hook_event_name") === "PostToolUseFailure";
  const told = hasFailed ? ownValue(event, "error") : ownValue(event, "tool_response");
  const content = await contentOfAnswer(told ?? undefined);
  if (content === undefined) return undefined;
  const isCut = content.isCut || ownValue(event, "is_cut") === true;
  return { ...content, isError: content.isError || hasFailed, isCut };
}

/** Returns the text of what a tool answered: of an MCP server's tool its blocks, of any other its text, or its JSON. */
function contentOfAnswer(answer: JsonValue | undefined): Promise<ResultContent | undefined> {
  if (Array.isArray(answer) && answer.every(isBlock)) return contentOfTool({ content: answer });
  if (answer === undefined || !isJsonObject(answer)) return contentFrom([answer], false);
  const isOfServer = Array.isArray(ownValue(answer, "content")) || ownValue(answer, "structuredContent") !== undefined;
  if (isOfServer) return contentOfTool(answer);
  const { isError = false, ...members } = answer;
  return contentFrom(Object.keys(members).length === 0 ? [] : [members], isError === true);
}

const isBlock = (value: JsonValue): boolean => isJsonObject(value) && typeof ownValue(value, "type") === "string";
