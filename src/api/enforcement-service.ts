import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  type ClaimDecisionRequest,
  EnforcementService,
  type InterceptRequest,
  type InterceptResponseSchema,
  type ObserveRequest,
  type ReportOutcomeRequest,
  type SummarizeDecisionsResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Slots } from "../async/slots.ts";
import { claimDecision } from "../decision/claim.ts";
import type { Intercept, InterceptCommand } from "../decision/intercept.ts";
import { type FollowUpCaller, type OutcomeReport, reportOutcome } from "../decision/report-outcome.ts";
import { ControlPlaneError, ErrorReason, invalidField, overShare } from "../errors.ts";
import { outcomeDueMs } from "../log/follow-up.ts";
import { LogFeed } from "../log/log-feed.ts";
import { readFollowed } from "../log/read-follow-ups.ts";
import { readToolDigest } from "../log/read-receipts.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import type { WorkspaceLog } from "../log/writer.ts";
import type { Observe, ObserveCommand } from "../observation/observe.ts";
import { ActorNames } from "../registry/actor-names.ts";
import { getAgent } from "../registry/agents.ts";
import { checkedText } from "../registry/checked-text.ts";
import {
  type DecisionCounts,
  type DecisionSummary,
  type SummaryWindow,
  summarizeDecisions,
  summaryWindow,
} from "../registry/decision-summary.ts";
import { type DecisionRow, listDecisionReceipts, watchDecisions, watchFollowed } from "../registry/decisions.ts";
import { hasApiKeyEnded } from "../registry/keys.ts";
import type { SealedDecision } from "../state/types.ts";
import { actionFrom, readSources, traceInMetadata } from "./action.ts";
import type { CallContext, Caller } from "./context.ts";
import {
  decisionMapping,
  decisionPathMapping,
  observationSourceMapping,
  outcomeStatusMapping,
} from "./enum-mapping.ts";
import { actorOf, actorsOf, claimMessageFrom, decisionUpdateFrom, outcomeMessageFrom } from "./follow-ups.ts";
import { interceptAll } from "./intercept-stream.ts";
import { pageFrom } from "./paging.ts";
import { decisionRecordFrom, decisionRecordsFrom, reasonMessageFrom, receiptMessageFrom } from "./records.ts";
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
    reasons: sealed.reasons.map(reasonMessageFrom),
    tool: sealed.registeredTool,
    claimed: sealed.isClaimed,
    reportOutcome: sealed.isTracked,
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
  { buckets, totals, topReasons, observed, firings, reasonsFrom }: DecisionSummary,
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
    firings: firings.map(({ mandateId, ...counts }) => ({ mandateId, ...countsFrom(counts) })),
    reasonsFrom: BigInt(reasonsFrom),
  };
}

/** Parts that EnforcementService needs. */
export interface EnforcementServiceParts {
  readonly intercept: Intercept;
  readonly observe: Observe;
  readonly logs: WorkspaceLogs;
  readonly pool: Pool;
  /** Milliseconds between heartbeats on a quiet stream. */
  readonly heartbeatMs: number;
}

/** Returns the caller of a claim or a report. */
const followUpCaller = ({ keyId, agentId, role }: Caller, waiter: Pick<CallContext, "isOver">): FollowUpCaller => ({
  keyId,
  agentId,
  source: role === Role.AGENT ? "agent" : "operator",
  isOver: () => waiter.isOver,
});

/** Names the `request_id` in a fault of the database: a retry with it does not decide the action twice. */
function withRequestId(error: unknown): unknown {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.STORE_UNAVAILABLE) return error;
  const { reason, message, metadata, cause } = error;
  return new ControlPlaneError(reason, `${message} with the same \`request_id\``, metadata, { cause });
}

/** Creates the functions of EnforcementService, which decide actions and read decisions back from the log. */
export function createEnforcementService({
  intercept,
  observe,
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
  const reportOne = async (request: ReportOutcomeRequest, caller: Caller, waiter: CallContext) => {
    const { decisionId, status, amount, error, resultDigest } = request;
    const report = {
      decisionId,
      status: outcomeStatusMapping.fromProto(status) as OutcomeReport["status"],
      amount,
      error: error === undefined ? undefined : checkedText("error", error),
      resultDigest,
    };
    const log = await logs.of(caller.workspaceId);
    return { outcome: outcomeMessageFrom(await reportOutcome(log, report, followUpCaller(caller, waiter))) };
  };
  const claimOne = async (
    { decisionId, claimId: given, report: reportsOutcome = true }: ClaimDecisionRequest,
    caller: Caller,
    waiter: CallContext,
  ) => {
    const { workspaceId } = caller;
    const claimId = given.toLowerCase();
    const hasKeyEnded = (keyId: string) => hasApiKeyEnded(pool, workspaceId, keyId, logs.clock.now());
    const log = await logs.of(workspaceId);
    const command = { decisionId, claimId, reportsOutcome, hasKeyEnded };
    const followed = await claimDecision(log, command, followUpCaller(caller, waiter));
    return { claimed: true, claim: claimMessageFrom(followed), reportOutcome: outcomeDueMs(followed) !== undefined };
  };
  const observeOne = async (request: ObserveRequest, context: CallContext) => {
    const { sessionId, decisionId, content, isError, isCut } = request;
    const { caller, signal } = context;
    await context.giveWay(content.length);
    const source = observationSourceMapping.fromProto(request.source) as ObserveCommand["source"];
    if (source === "prompt" && decisionId !== undefined)
      throw invalidField("decision_id", "goes with `result` only, not with `prompt`");
    const { keyId, agentId, role, workspaceId } = caller;
    const command = { sessionId, source, decisionId, content, isError, isCut };
    const observer = { keyId, agentId, isAgent: role === Role.AGENT, isOver: () => context.isOver, signal };
    const sealed = await observe(await logs.of(workspaceId), command, observer);
    const { observationId, values, isFull, isReplayed } = sealed;
    return { observationId, values, observationsFull: isFull, replayed: isReplayed };
  };
  /** Returns the name of a tool as receipts show it. */
  const nameOfTool = async (workspaceId: string, name: string): Promise<string> => {
    const state = await (await logs.of(workspaceId)).caughtUp();
    return state.policies.tool(name)?.schema.name ?? name;
  };
  return defineService(EnforcementService, {
    intercept: (request, context) => interceptOne(request, context.caller, context, context),
    interceptStream: (requests, context) =>
      interceptAll(requests, {
        intercept: (request, caller) =>
          interceptOne(request, caller, context, { wire: "stream", receivedAt: performance.now() }),
        claim: (request, caller) => claimOne(request, caller, context),
        report: (request, caller) => reportOne(request, caller, context),
      }),
    async getDecision({ decisionId }, { caller }) {
      const followed = (await readFollowed(pool, caller.workspaceId, [decisionId]))(decisionId);
      if (followed instanceof ControlPlaneError) throw followed;
      const { receipt } = followed;
      const toolDigest = await readToolDigest(pool, caller.workspaceId, receipt);
      const { key_id: keyId } = receipt.body;
      const nameOf = await names.find(caller.workspaceId, [keyId, ...actorsOf(followed)]);
      return {
        decision: decisionRecordFrom(receipt, followed, nameOf),
        receipt: receiptMessageFrom(receipt, toolDigest),
        keyName: nameOf(keyId),
      };
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
        outcome: outcomeStatusMapping.fromProto(request.outcome),
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
        filter.outcome,
      );
      const { items, next } = await listDecisionReceipts(pool, caller.workspaceId, filter, page);
      return {
        decisions: await decisionRecordsFrom(pool, names, caller.workspaceId, items),
        nextPageToken: page.tokenAfter(next),
      };
    },
    reportOutcome: (request, context) => reportOne(request, context.caller, context),
    claimDecision: (request, context) => claimOne(request, context.caller, context),
    observe: observeOne,
    async summarizeDecisions(request, { caller, signal }) {
      const { agentId, since, until, bucketSeconds, countsOnly } = request;
      const log = await logs.of(caller.workspaceId);
      const state = await log.caughtUp();
      if (agentId !== "") getAgent(state, agentId);
      const query = {
        sinceMs: since === undefined ? undefined : timestampMs(since),
        untilMs: until === undefined ? undefined : timestampMs(until),
        agentId: unlessEmpty(agentId),
        bucketSeconds: bucketSeconds === 0 ? undefined : bucketSeconds,
        countsOnly,
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
      const watch = request.outcomes ? watchFollowed : watchDecisions;
      for await (const next of watch(context, filter, cursor)) {
        if ("isBeat" in next) {
          const at = timestampFromMs(logs.clock.now());
          yield { heartbeat: true, cursor: next.seq < 0 ? "" : String(next.seq), at };
          continue;
        }
        if ("type" in next) {
          const { seq, at } = next;
          const nameOf = await names.find(caller.workspaceId, [actorOf(next)]);
          yield { update: decisionUpdateFrom(next, nameOf), cursor: String(seq), at: timestampFromMs(Date.parse(at)) };
          continue;
        }
        const { seq, at } = next.body;
        yield { decision: decisionRecordFrom(next), cursor: String(seq), at: timestampFromMs(Date.parse(at)) };
      }
    },
  });
}
