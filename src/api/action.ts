import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { JsonFault, readJsonAtOnce } from "../json/read-json.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { nameFault, normaliseName, toolKey, toolNameFault } from "../policy/names.ts";
import { isStorableJson } from "../registry/checked-text.ts";
import type { Action } from "../state/types.ts";
import { createId, idFromUuid } from "../store/ids.ts";
import { type TracePlace, traceContextFrom } from "../tracing/trace-context.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { Caller } from "./context.ts";

/** The parts of a request that rules may find in two places, each settled to one. */
export interface ActionSources {
  /** With `arguments` as an object, if there are any. */
  readonly metadata: JsonObject | undefined;
  /** The tool that the request itself names. */
  readonly tool: string | undefined;
}

const ARGUMENTS = "metadata.arguments";
/** Maximum depth of arguments that come as text: they have to fit into the 64 levels of a request. */
const MAX_DEPTH = 60;
/** Maximum values of the metadata with such arguments, as in a request. */
const MAX_METADATA_VALUES = 25_000;

/**
 * Settles the tool and the arguments of a request. A member of the metadata that is null, and a blank name, count as missing.
 * Throws AGENT_NOT_ALLOWED, and INVALID_FIELD for a tool, server or arguments of another form, and for two tools that differ.
 */
export function readSources({ agentId, metadata, tool: requested }: InterceptRequest, caller: Caller): ActionSources {
  assertMayActAs(caller, agentId);
  const tool = readTool("tool", requested);
  if (metadata === undefined) return { metadata, tool };
  const named = readTool("metadata.tool", ownValue(metadata, "tool"));
  if (tool !== undefined && named !== undefined && toolKey(tool) !== toolKey(named)) {
    throw invalidField("metadata.tool", "names another tool than `tool`; name one tool");
  }
  checkServer(ownValue(metadata, "mcp_server"));
  return { metadata: withArguments(metadata), tool };
}

function readTool(field: string, value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalidField(field, "must be text, the name of a tool");
  const name = value.trim();
  if (name === "") return undefined;
  const fault = toolNameFault(name);
  if (fault !== undefined) throw invalidField(field, fault);
  return name;
}

function checkServer(value: JsonValue | undefined): void {
  if (value === undefined || value === null) return;
  if (typeof value !== "string") throw invalidField("metadata.mcp_server", "must be text, the name of an MCP server");
  const fault = nameFault(value);
  if (fault !== undefined) throw invalidField("metadata.mcp_server", fault);
}

/** Returns metadata whose arguments are an object: those that come as text, as in OpenAI's tool calls, are parsed. */
function withArguments(metadata: JsonObject): JsonObject {
  const given = ownValue(metadata, "arguments");
  if (given === undefined || given === null || isJsonObject(given)) return metadata;
  if (typeof given !== "string") throw invalidField(ARGUMENTS, "must be an object, or its JSON text");
  const { arguments: _, ...others } = metadata;
  return { ...metadata, arguments: parseArguments(given, MAX_METADATA_VALUES - countValues(others)) };
}

function parseArguments(text: string, maxValues: number): JsonObject {
  const parsed = readArguments(text, maxValues);
  if (!isJsonObject(parsed)) throw invalidField(ARGUMENTS, "must be an object, or the JSON text of one");
  if (countValues(parsed) > maxValues) throw tooManyValues();
  // The text itself has been checked with the request: only an escape can stand for what cannot be stored.
  if (text.includes("\\u") && !isStorableJson(parsed as never))
    throw invalidField(ARGUMENTS, "must not hold U+0000 or half of a surrogate pair");
  return parsed;
}

/** Reads the text of arguments; undefined for text that is not JSON. */
function readArguments(text: string, maxValues: number): JsonValue | undefined {
  try {
    return readJsonAtOnce(text, { maxDepth: MAX_DEPTH, maxValues, hasUniqueMembers: true }) as JsonValue;
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    if (error.kind === "too_many_values") throw tooManyValues();
    if (error.kind === "too_deep") throw invalidField(ARGUMENTS, `must nest at most ${MAX_DEPTH} levels deep`);
    if (error.kind === "repeated_member") throw invalidField(ARGUMENTS, "names a member twice");
    return undefined;
  }
}

const tooManyValues = (): ControlPlaneError =>
  invalidField(
    ARGUMENTS,
    `must not hold more than ${MAX_METADATA_VALUES.toLocaleString("en")} values, with the metadata`,
  );

/** Counts the values in a value, and itself. Throws INVALID_FIELD for a number beyond the range of a 64-bit float. */
function countValues(value: JsonValue): number {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw invalidField(ARGUMENTS, "holds a number that is too large");
  }
  if (typeof value !== "object" || value === null) return 1;
  let count = 1;
  for (const each of Array.isArray(value) ? value : Object.values(value)) count += countValues(each);
  return count;
}

function assertMayActAs(caller: Caller, agentId: string): void {
  if (caller.agentId === null || caller.agentId === agentId) return;
  const message = `the key is bound to agent \`${caller.agentId}\` and cannot act as \`${agentId}\``;
  throw new ControlPlaneError(ErrorReason.AGENT_NOT_ALLOWED, message, { agent_id: agentId });
}

function normalise(actionType: string): string {
  const fault = nameFault(actionType);
  if (fault !== undefined) throw invalidField("action_type", fault);
  const normalised = normaliseName(actionType);
  if (normalised === "") throw invalidField("action_type", "must not be blank");
  return normalised;
}

/** Returns the trace context in the metadata of a request; undefined if there is no valid one. */
export function traceInMetadata({ metadata }: InterceptRequest): TracePlace | undefined {
  const traceparent = metadata === undefined ? undefined : ownValue(metadata, "traceparent");
  return traceparent === undefined ? undefined : traceContextFrom(traceparent, ownValue(metadata ?? {}, "tracestate"));
}

/**
 * Returns the action that a valid request asks to decide. `trace` is the place in the trace of its call; `sources` are those of the
 * request, if they are read in a step of their own. Throws INVALID_FIELD and AGENT_NOT_ALLOWED.
 */
export function actionFrom(
  request: InterceptRequest,
  caller: Caller,
  trace?: TracePlace,
  { metadata, tool }: ActionSources = readSources(request, caller),
): Action {
  const { requestId } = request;
  return {
    decisionId: requestId === undefined ? createId("dec") : idFromUuid("dec", requestId),
    isRetryable: requestId !== undefined,
    agentId: request.agentId,
    actionType: request.actionType,
    normalisedType: normalise(request.actionType),
    actionContent: request.actionContent,
    metadata,
    metadataText: metadata === undefined ? "" : canonicalJson(metadata),
    tool,
    sessionId: request.sessionId,
    onBehalfOf: request.onBehalfOf,
    grantId: request.grantId,
    intentContractId: request.intentContractId,
    escalationId: request.escalationId,
    claimId: request.claimId?.toLowerCase(),
    ...(request.report === false ? { reportsOutcome: false } : {}),
    keyId: caller.keyId,
    isKeyBound: caller.agentId !== null,
    trace,
  };
}
