import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { invalidField } from "../errors.ts";
import type { DecisionReceipt } from "../log/receipts.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { argumentsFrom, normaliseName } from "../policy/names.ts";
import { isStorableJson } from "../registry/checked-text.ts";
import type { Action } from "../state/types.ts";
import { createId } from "../store/ids.ts";
import { canonicalJson } from "../tree/canonical.ts";

/**
 * Maximum depth of edited arguments: they still have to fit into the 64 levels of a request that attempts the edited action.
 */
const MAX_DEPTH = 60;
/** Maximum bytes of a content, as in an intercept. */
const MAX_CONTENT_BYTES = 1_048_576;
/**
 * Members of the metadata that name the called tool. They are not arguments, even where the metadata itself are the arguments.
 */
const NAMES_OF_TOOL = ["tool", "mcp_server"];

/**
 * Returns the action of an escalation with other arguments, as one that a person's key asks for in its place. Throws INVALID_FIELD
 * for arguments that this action cannot have.
 */
export function editedActionFrom(
  { body }: DecisionReceipt,
  escalationId: string,
  edited: JsonObject,
  by: string,
): Action {
  assertFit(edited);
  const { action } = body;
  const before = action.metadata as JsonObject | undefined;
  const metadata = editedMetadata(before, edited, body.digest_ignores ?? []);
  return {
    decisionId: createId("dec"),
    isRetryable: false,
    agentId: action.agent_id,
    actionType: action.action_type,
    normalisedType: normaliseName(action.action_type),
    actionContent: editedContent(action.action_content, argumentsFrom(before), edited),
    metadata,
    metadataText: canonicalJson(metadata),
    tool: action.tool,
    sessionId: body.session_id,
    onBehalfOf: body.on_behalf_of,
    grantId: body.grant_id,
    intentContractId: body.intent_contract_id,
    escalationId: undefined,
    keyId: by,
    editOf: escalationId,
    keepsTrust: body.trust_kept === true,
  };
}

function assertFit(edited: JsonObject): void {
  if (depthOf(edited) > MAX_DEPTH) throw invalidField("arguments", `must nest at most ${MAX_DEPTH} levels deep`);
  if (!isStorableJson(edited)) throw invalidField("arguments", "must not hold U+0000 or half of a surrogate pair");
}

/** Counts the levels of a value, up to one past the maximum. */
function depthOf(value: JsonValue, limit = MAX_DEPTH + 1): number {
  if (typeof value !== "object" || value === null) return 0;
  if (limit === 1) return 1;
  return 1 + Math.max(0, ...Object.values(value).map((each) => depthOf(each, limit - 1)));
}

/** Replaces the arguments in metadata: the member `arguments`, or all of it where the metadata itself are the arguments. */
function editedMetadata(before: JsonObject | undefined, edited: JsonObject, ignored: readonly string[]): JsonObject {
  if (before === undefined || isJsonObject(ownValue(before, "arguments"))) return { ...before, arguments: edited };
  if ((ownValue(edited, "arguments") ?? null) !== null) {
    throw invalidField("arguments.arguments", "must be left out: the action's metadata itself are its arguments");
  }
  for (const name of NAMES_OF_TOOL) {
    const given = ownValue(edited, name);
    if (given === undefined || given === (ownValue(before, name) ?? null)) continue;
    throw invalidField(`arguments.${name}`, "must stay as it is: an edit changes the arguments and not the tool");
  }
  const kept = [...NAMES_OF_TOOL, ...ignored].filter((name) => Object.hasOwn(before, name));
  return { ...Object.fromEntries(kept.map((name) => [name, before[name] as JsonValue])), ...edited };
}

/** Returns the content of the edited action: the same, unless it is the JSON text of the arguments, which it then follows. */
function editedContent(content: string, before: JsonObject | undefined, edited: JsonObject): string {
  if (before === undefined || canonicalText(content) !== canonicalJson(before)) return content;
  const text = canonicalJson(edited);
  if (Buffer.byteLength(text) <= MAX_CONTENT_BYTES) return text;
  const why = "because their JSON text is the action's content";
  throw invalidField("arguments", `must be at most ${MAX_CONTENT_BYTES} bytes of JSON, ${why}`);
}

/** Returns the RFC 8785 form of a JSON text of an object; undefined for any other text. */
function canonicalText(text: string): string | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    return canonicalJson(JSON.parse(text));
  } catch {
    return undefined;
  }
}
