import type { JsonObject, JsonValue, MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import {
  EnforcementService,
  type InterceptRequest,
  type InterceptResponseSchema,
  type SummarizeDecisionsResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { Intercept } from "../decision/intercept.ts";
import { Slots } from "../dryrun/slots.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import { LogFeed } from "../log/log-feed.ts";
import { readReceipts, readToolDigest } from "../log/receipts.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { isJsonObject, ownValue } from "../policy/json-value.ts";
import { nameFault, normaliseName, toolKey, toolNameFault } from "../policy/names.ts";
import { getAgent } from "../registry/agents.ts";
import { isStorableJson } from "../registry/checked-text.ts";
import {
  type DecisionCounts,
  type DecisionSummary,
  type SummaryWindow,
  summarizeDecisions,
  summaryWindow,
} from "../registry/decision-summary.ts";
import { type DecisionRow, listDecisionReceipts, watchDecisions } from "../registry/decisions.ts";
import type { Action, SealedDecision } from "../state/types.ts";
import { createId, idFromUuid } from "../store/ids.ts";
import { canonicalJson } from "../tree/canonical.ts";
import type { CallContext, Caller } from "./context.ts";
import { decisionMapping, decisionPathMapping } from "./enum-mapping.ts";
import { interceptAll } from "./intercept-stream.ts";
import { pageFrom } from "./paging.ts";
import { decisionRecordFrom, receiptMessageFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** The parts of a request that rules may find in two places, each settled to one. */
interface ActionSources {
  /** With `arguments` as an object, if there are any. */
  readonly metadata: JsonObject | undefined;
  /** The tool that the request itself names. */
  readonly tool: string | undefined;
}

const ARGUMENTS = "metadata.arguments";
/** Depth of arguments that come as text: what is left of a request's 64 levels. */
const MAX_DEPTH = 60;
const STRING_LITERAL = /"[^"\\]*(?:\\.[^"\\]*)*"/g;

/**
 * Settles what a request says of its tool and its arguments. A member of the metadata that is null, and a blank name, count as
 * missing. Throws INVALID_FIELD for a tool, server or arguments of another form, and for two tools that differ.
 */
function readSources(metadata: JsonObject | undefined, requested: string | undefined): ActionSources {
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
  return { ...metadata, arguments: parseArguments(given) };
}

function parseArguments(text: string): JsonObject {
  const parsed = parseJson(text);
  if (!isJsonObject(parsed)) throw invalidField(ARGUMENTS, "must be an object, or the JSON text of one");
  const members = countMembers(parsed, 1);
  // Outside of its strings a JSON text has a colon for each member that is written, and `parsed` has each name once.
  const written = text.replace(STRING_LITERAL, "").split(":").length - 1;
  if (written !== members) throw invalidField(ARGUMENTS, "names a member twice");
  if (!isStorableJson(parsed as never))
    throw invalidField(ARGUMENTS, "must not hold U+0000 or half of a surrogate pair");
  return parsed;
}

function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

function countMembers(value: JsonValue, depth: number): number {
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw invalidField(ARGUMENTS, "holds a number that is too large");
  }
  if (typeof value !== "object" || value === null) return 0;
  if (depth > MAX_DEPTH) throw invalidField(ARGUMENTS, `must nest at most ${MAX_DEPTH} levels deep`);
  const inner = Array.isArray(value) ? value : Object.values(value);
  let count = Array.isArray(value) ? 0 : inner.length;
  for (const each of inner) count += countMembers(each, depth + 1);
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

/** Returns the action that a valid request asks to decide. Throws INVALID_FIELD and AGENT_NOT_ALLOWED. */
export function actionFrom(request: InterceptRequest, caller: Caller): Action {
  assertMayActAs(caller, request.agentId);
  const { requestId } = request;
  const { metadata, tool } = readSources(request.metadata, request.tool);
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
    keyId: caller.keyId,
    isKeyBound: caller.agentId !== null,
  };
}

function responseFrom(sealed: SealedDecision, receivedAt: number): MessageInitShape<typeof InterceptResponseSchema> {
  return {
    decision: decisionMapping.toProto[sealed.decision],
    trustScore: sealed.trustTenths / 10,
    decisionId: sealed.decisionId,
    escalationId: sealed.escalationId,
    policyName: sealed.policyName,
    latencyMs: Math.round(performance.now() - receivedAt),
    decisionPath: decisionPathMapping.toProto[sealed.path],
    reasons: sealed.reasons.map((reason) => ({ ...reason })),
    ...(sealed.isReplayed ? { replayed: true, decidedAt: timestampFromMs(sealed.atMs) } : {}),
  };
}

const unlessEmpty = (text: string): string | undefined => (text === "" ? undefined : text);

/** Summaries of a process that are read at once: each holds a connection of the pool. */
const MAX_SUMMARIES = 2;
const MAX_WAITING_SUMMARIES = 32;

const countsFrom = ({ allow, block, escalate }: DecisionCounts) => ({
  ...{ allow: BigInt(allow), block: BigInt(block), escalate: BigInt(escalate) },
});

function summaryFrom(
  { sinceMs, untilMs, bucketSeconds }: SummaryWindow,
  { buckets, totals, topReasons, observed, reasonsFrom }: DecisionSummary,
): MessageInitShape<typeof SummarizeDecisionsResponseSchema> {
  return {
    since: timestampFromMs(sinceMs),
    until: timestampFromMs(untilMs),
    bucketSeconds,
    buckets: buckets.map(({ atMs, ...counts }) => ({ at: timestampFromMs(atMs), ...countsFrom(counts) })),
    totals: countsFrom(totals),
    topReasons: topReasons.map(({ code, mandateId, mandateName, rule, count }) => ({
      ...{ code, count: BigInt(count) },
      ...(mandateId === null ? {} : { mandateId }),
      ...(mandateName === null ? {} : { mandateName }),
      ...(rule === null ? {} : { rule }),
    })),
    observed: observed.map(({ mandateId, mandateName, version, wouldBlock, wouldEscalate }) => ({
      ...{ mandateId, mandateName: mandateName ?? "", version },
      ...{ wouldBlock: BigInt(wouldBlock), wouldEscalate: BigInt(wouldEscalate) },
    })),
    reasonsFrom: BigInt(reasonsFrom),
  };
}

/** Parts that EnforcementService needs. */
export interface EnforcementServiceParts {
  readonly intercept: Intercept;
  readonly logs: WorkspaceLogs;
  readonly pool: Pool;
  /** Milliseconds between heartbeats on a quiet stream. */
  readonly heartbeatMs: number;
}

/** Creates the functions of EnforcementService, which decide actions and read decisions back from the log. */
export function createEnforcementService({
  intercept,
  logs,
  pool,
  heartbeatMs,
}: EnforcementServiceParts): ServiceDefinition {
  const feeds = new WeakMap<WorkspaceLog, LogFeed<DecisionRow>>();

  const summaries = new Slots({ maxTaken: MAX_SUMMARIES, maxWaiting: MAX_WAITING_SUMMARIES });

  const feedOf = (log: WorkspaceLog): LogFeed<DecisionRow> => {
    const feed = feeds.get(log) ?? new LogFeed<DecisionRow>(log, { isNotified: false });
    feeds.set(log, feed);
    return feed;
  };

  const interceptOne = async (request: InterceptRequest, caller: Caller, waiter: CallContext, receivedAt: number) => {
    const action = actionFrom(request, caller);
    await waiter.giveWay(action.actionContent.length + action.metadataText.length);
    const sealed = await intercept({ workspaceId: caller.workspaceId, action, waiter });
    return responseFrom(sealed, receivedAt);
  };
  /** Returns the name of a tool as receipts show it. */
  const nameOfTool = async (workspaceId: string, name: string): Promise<string> => {
    const state = await (await logs.of(workspaceId)).caughtUp();
    return state.policies.tool(name)?.schema.name ?? name;
  };
  return defineService(EnforcementService, {
    intercept: (request, context) => interceptOne(request, context.caller, context, context.receivedAt),
    interceptStream: (requests, context) =>
      interceptAll(requests, (request, caller) => interceptOne(request, caller, context, performance.now())),
    async getDecision({ decisionId }, { caller }) {
      const receipts = await readReceipts(pool, caller.workspaceId, [decisionId]);
      const receipt = receipts.get(decisionId);
      if (receipt === undefined) {
        throw new ControlPlaneError(ErrorReason.DECISION_NOT_FOUND, `no decision \`${decisionId}\``, {
          decision_id: decisionId,
        });
      }
      const toolDigest = await readToolDigest(pool, caller.workspaceId, receipt);
      return { decision: decisionRecordFrom(receipt), receipt: receiptMessageFrom(receipt, toolDigest) };
    },
    async listDecisions(request, { caller }) {
      const { agentId, sessionId, since, until, actionType, actionTypePrefix, tool } = request;
      const decision = decisionMapping.fromProto(request.decision);
      const filter = {
        agentId: unlessEmpty(agentId),
        sessionId: unlessEmpty(sessionId),
        decision,
        sinceMs: since === undefined ? undefined : timestampMs(since),
        untilMs: until === undefined ? undefined : timestampMs(until),
        actionType: unlessEmpty(actionType),
        actionTypePrefix: unlessEmpty(actionTypePrefix),
        tool: tool === "" ? undefined : await nameOfTool(caller.workspaceId, tool),
      };
      const page = pageFrom(
        ...([request, "decisions", filter.agentId, decision, filter.sinceMs, filter.untilMs] as const),
        ...[filter.actionType, filter.actionTypePrefix, filter.tool, filter.sessionId],
      );
      const { items, next } = await listDecisionReceipts(pool, caller.workspaceId, filter, page);
      return { decisions: items.map(decisionRecordFrom), nextPageToken: page.tokenAfter(next) };
    },
    async summarizeDecisions(request, { caller }) {
      const { agentId, since, until, bucketSeconds } = request;
      const log = await logs.of(caller.workspaceId);
      const state = await log.caughtUp();
      if (agentId !== "") getAgent(state, agentId);
      const query = {
        sinceMs: since === undefined ? undefined : timestampMs(since),
        untilMs: until === undefined ? undefined : timestampMs(until),
        agentId: unlessEmpty(agentId),
        bucketSeconds: bucketSeconds === 0 ? undefined : bucketSeconds,
      };
      const window = summaryWindow(query, log.nowMs);
      const summary = await summaries.run(() => summarizeDecisions(pool, caller.workspaceId, window));
      return summaryFrom(window, summary);
    },
    async *watchDecisions(request, { caller, signal }) {
      const { agentId, cursor } = request;
      const log = await logs.of(caller.workspaceId);
      const filter = {
        agentId: agentId === "" ? undefined : agentId,
        decision: decisionMapping.fromProto(request.decision),
      };
      const context = { log, feed: feedOf(log), pool, heartbeatMs, signal };
      for await (const next of watchDecisions(context, filter, cursor)) {
        if ("isBeat" in next) {
          const at = timestampFromMs(logs.clock.now());
          yield { heartbeat: true, cursor: next.seq < 0 ? "" : String(next.seq), at };
          continue;
        }
        const { seq, at } = next.body;
        yield { decision: decisionRecordFrom(next), cursor: String(seq), at: timestampFromMs(Date.parse(at)) };
      }
    },
  });
}
