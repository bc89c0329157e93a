import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Pool } from "pg";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  EscalationChange as ChangeKind,
  type EscalationSchema,
  EscalationService,
  EscalationStatus,
  Resolution,
} from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type Escalation, findEscalationPage, getEscalation } from "../escalation/escalation.ts";
import { createEscalationFeed, type EscalationFeed } from "../escalation/feed.ts";
import { resolveEscalation } from "../escalation/resolve.ts";
import { type WatchContext, waitEscalation, watchEscalations } from "../escalation/watch.ts";
import type { WorkspaceLog } from "../log/workspace-log.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { argumentsFrom } from "../policy/action-source.ts";
import { numberFromEscalationStatus } from "../state/stored-enums.ts";
import type { CallContext, Caller } from "./context.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";
import { reasonMessageFromSealed } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { timestampFromMs } from "./words.ts";

/** What EscalationService works with. */
export interface EscalationServiceParts {
  readonly logs: WorkspaceLogs;
  readonly pool: Pool;
  /** Milliseconds between heartbeats of a stream that has nothing to say. */
  readonly heartbeatMs: number;
}

const statusOf = ({ status }: Escalation): EscalationStatus => numberFromEscalationStatus(status);

function messageFrom(escalation: Escalation): MessageInitShape<typeof EscalationSchema> {
  const { body } = escalation.receipt;
  const { action } = body;
  return {
    escalationId: escalation.escalationId,
    status: statusOf(escalation),
    agentId: escalation.agentId,
    agentName: action.agent_name,
    trustScore: body.trust.before,
    actionType: action.action_type,
    actionContent: action.action_content,
    tool: action.tool,
    arguments: argumentsFrom(action.metadata),
    decisionId: body.decision_id,
    policyName: body.policy_name,
    reasons: body.reasons.map(reasonMessageFromSealed),
    createdAt: timestampFromMs(Date.parse(body.at)),
    resolvedAt: escalation.resolvedAtMs === null ? undefined : timestampFromMs(escalation.resolvedAtMs),
    resolvedBy: escalation.resolvedBy ?? undefined,
    note: escalation.note ?? undefined,
    usedByDecisionId: escalation.usedBy ?? undefined,
  };
}

/** The agent whose escalations alone the key may see; null when it may see all. */
const visibleAgent = ({ role, agentId }: Caller): string | null => (role === Role.AGENT ? agentId : null);

/** Creates EscalationService. One feed for each workspace serves every stream of this replica. */
export function createEscalationService({ logs, pool, heartbeatMs }: EscalationServiceParts): ServiceDefinition {
  const feeds = new WeakMap<WorkspaceLog, EscalationFeed>();

  const feedOf = (log: WorkspaceLog): EscalationFeed => {
    const known = feeds.get(log);
    if (known !== undefined) return known;
    const feed = createEscalationFeed(log, pool);
    feeds.set(log, feed);
    return feed;
  };

  const watchContext = async ({ caller, signal }: CallContext): Promise<WatchContext> => {
    const log = await logs.of(caller.workspaceId);
    return { log, feed: feedOf(log), pool, heartbeatMs, signal };
  };

  const get = (escalationId: string, { caller }: CallContext): Promise<Escalation> =>
    getEscalation(pool, caller.workspaceId, escalationId, visibleAgent(caller));

  return defineService(EscalationService, {
    async getEscalationStatus({ escalationId }, context) {
      return { ok: true, status: statusOf(await get(escalationId, context)) };
    },
    async *waitEscalation({ escalationId }, context) {
      const watch = await watchContext(context);
      for await (const escalation of waitEscalation(watch, escalationId, visibleAgent(context.caller))) {
        yield escalation === undefined ? { heartbeat: true } : { escalation: messageFrom(escalation) };
      }
    },
    async *watchEscalations({ cursor: first }, context) {
      let cursor = first;
      for await (const change of watchEscalations(await watchContext(context), first)) {
        if (change === undefined) {
          yield { change: ChangeKind.HEARTBEAT, cursor, at: timestampFromMs(logs.clock.now()) };
          continue;
        }
        cursor = String(change.seq);
        yield {
          change: change.kind === "created" ? ChangeKind.CREATED : ChangeKind.RESOLVED,
          escalation: messageFrom(change.escalation),
          cursor,
          at: timestampFromMs(change.atMs),
        };
      }
    },
    async listEscalations(request, { caller }) {
      const { status, agentId, pageToken } = request;
      const kind = pageKind("escalations", status, agentId);
      const limit = pageSizeFrom(request);
      const escalations = await findEscalationPage(pool, caller.workspaceId, {
        status: status === EscalationStatus.UNSPECIFIED ? null : status,
        agentId: agentId === "" ? null : agentId,
        before: decodePageToken(kind, pageToken) ?? null,
        limit: limit + 1,
      });
      const page = escalations.slice(0, limit);
      const next = escalations.length > limit ? page.at(-1)?.createdSeq : undefined;
      return { escalations: page.map(messageFrom), nextPageToken: nextPageToken(kind, next) };
    },
    async getEscalation({ escalationId }, context) {
      return { escalation: messageFrom(await get(escalationId, context)) };
    },
    async resolveEscalation({ escalationId, resolution, note = null }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      const word = resolution === Resolution.APPROVED ? "approved" : "rejected";
      const command = { escalationId, resolution: word, note, by: caller.keyId } as const;
      return { escalation: messageFrom(await resolveEscalation({ log, pool }, command)) };
    },
  });
}
