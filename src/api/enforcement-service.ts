import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import {
  EnforcementService,
  type InterceptRequest,
  type InterceptResponseSchema,
  type SummarizeDecisionsResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Slots } from "../async/slots.ts";
import type { Intercept, InterceptCommand } from "../decision/intercept.ts";
import { ControlPlaneError, ErrorReason, overShare } from "../errors.ts";
import { LogFeed } from "../log/log-feed.ts";
import { readReceipt, readToolDigest } from "../log/read-receipts.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import { ActorNames } from "../registry/actor-names.ts";
import { getAgent } from "../registry/agents.ts";
import {
  type DecisionCounts,
  type DecisionSummary,
  type SummaryWindow,
  summarizeDecisions,
  summaryWindow,
} from "../registry/decision-summary.ts";
import { type DecisionRow, listDecisionReceipts, watchDecisions } from "../registry/decisions.ts";
import type { SealedDecision } from "../state/types.ts";
import { actionFrom, readSources, traceInMetadata } from "./action.ts";
import type { CallContext, Caller } from "./context.ts";
import { decisionMapping, decisionPathMapping } from "./enum-mapping.ts";
import { interceptAll } from "./intercept-stream.ts";
import { pageFrom } from "./paging.ts";
import { decisionRecordFrom, receiptMessageFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

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
    tool: sealed.registeredTool,
    ...(sealed.isReplayed ? { replayed: true, decidedAt: timestampFromMs(sealed.atMs) } : {}),
  };
}

const unlessEmpty = (text: string): string | undefined => (text === "" ? undefined : text);

/** Maximum number of summaries that a process reads at once: each holds a connection of the pool. */
const MAX_SUMMARIES = 4;
/** Summaries that are read or wait. */
const MAX_SUMMARIES_WANTED = 72;

const countsFrom = ({ allow, block, escalate }: DecisionCounts) => ({
  allow: BigInt(allow),
  block: BigInt(block),
  escalate: BigInt(escalate),
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
      code,
      count: BigInt(count),
      ...(mandateId === null ? {} : { mandateId }),
      ...(mandateName === null ? {} : { mandateName }),
      ...(rule === null ? {} : { rule }),
    })),
    observed: observed.map(({ mandateId, mandateName, version, wouldBlock, wouldEscalate }) => ({
      mandateId,
      mandateName: mandateName ?? "",
      version,
      wouldBlock: BigInt(wouldBlock),
      wouldEscalate: BigInt(wouldEscalate),
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

/** Names the `request_id` in a fault of the database: a retry with it does not decide the action twice. */
function withRequestId(error: unknown): unknown {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.STORE_UNAVAILABLE) return error;
  const { reason, message, metadata, cause } = error;
  return new ControlPlaneError(reason, `${message} with the same \`request_id\``, metadata, { cause });
}

/** Creates the functions of EnforcementService, which decide actions and read decisions back from the log. */
export function createEnforcementService({
  intercept,
  logs,
  pool,
  heartbeatMs,
}: EnforcementServiceParts): ServiceDefinition {
  const feeds = new WeakMap<WorkspaceLog, LogFeed<DecisionRow>>();

  const names = new ActorNames(pool);
  const summaries = new Slots({
    name: "summaries",
    permits: MAX_SUMMARIES,
    size: MAX_SUMMARIES_WANTED,
    unit: "summaries of decisions",
    advice: "ask for fewer at once",
    retryAfterSeconds: 1,
    refuse: overShare,
  });

  const feedOf = (log: WorkspaceLog): LogFeed<DecisionRow> => {
    const feed = feeds.get(log) ?? new LogFeed<DecisionRow>(log, { isNotified: false });
    feeds.set(log, feed);
    return feed;
  };

  const interceptOne = async (
    request: InterceptRequest,
    caller: Caller,
    waiter: CallContext,
    { wire, receivedAt }: Pick<InterceptCommand, "wire" | "receivedAt">,
  ) => {
    const sources = readSources(request, caller);
    const given = request.metadata?.arguments;
    await waiter.giveWay(typeof given === "string" ? given.length : 0);
    // An action may belong to another trace than its call, as may each message of a stream.
    const action = actionFrom(request, caller, traceInMetadata(request) ?? waiter.trace, sources);
    await waiter.giveWay(action.actionContent.length + action.metadataText.length);
    try {
      const sealed = await intercept({ workspaceId: caller.workspaceId, action, waiter, wire, receivedAt });
      return responseFrom(sealed, receivedAt);
    } catch (error) {
      throw request.requestId === undefined ? error : withRequestId(error);
    }
  };
  /** Returns the name of a tool as receipts show it. */
  const nameOfTool = async (workspaceId: string, name: string): Promise<string> => {
    const state = await (await logs.of(workspaceId)).caughtUp();
    return state.policies.tool(name)?.schema.name ?? name;
  };
  return defineService(EnforcementService, {
    intercept: (request, context) => interceptOne(request, context.caller, context, context),
    interceptStream: (requests, context) =>
      interceptAll(requests, (request, caller) =>
        interceptOne(request, caller, context, { wire: "stream", receivedAt: performance.now() }),
      ),
    async getDecision({ decisionId }, { caller }) {
      const receipt = await readReceipt(pool, caller.workspaceId, decisionId);
      if (receipt === undefined) {
        throw new ControlPlaneError(ErrorReason.DECISION_NOT_FOUND, `no decision \`${decisionId}\``, {
          decision_id: decisionId,
        });
      }
      const toolDigest = await readToolDigest(pool, caller.workspaceId, receipt);
      const { key_id: keyId } = receipt.body;
      const keyName = (await names.find(caller.workspaceId, [keyId]))(keyId);
      return { decision: decisionRecordFrom(receipt), receipt: receiptMessageFrom(receipt, toolDigest), keyName };
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
        request,
        "decisions",
        filter.agentId,
        decision,
        filter.sinceMs,
        filter.untilMs,
        filter.actionType,
        filter.actionTypePrefix,
        filter.tool,
        filter.sessionId,
      );
      const { items, next } = await listDecisionReceipts(pool, caller.workspaceId, filter, page);
      return { decisions: items.map(decisionRecordFrom), nextPageToken: page.tokenAfter(next) };
    },
    async summarizeDecisions(request, { caller, signal }) {
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
      const read = () => summarizeDecisions(pool, caller.workspaceId, window);
      const summary = await summaries.run(read, caller, signal);
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
