import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type AgentSchema,
  AgentService,
  AgentChange as ChangeKind,
  type RegisterAgentRequest,
  type TrustChangeSchema,
  type WatchAgentResponseSchema,
} from "../../gen/agentcontrol/v1/agent_service_pb.js";
import type { DecisionReceipt } from "../log/receipts.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { type AgentRegistration, deactivateAgent, listAgents, registerAgent } from "../registry/agents.ts";
import { listDecisionReceipts } from "../registry/decisions.ts";
import { agentOf } from "../registry/lookups.ts";
import { type AgentChange, watchAgent } from "../registry/watch-agent.ts";
import type { AgentState } from "../state/agents.ts";
import type { Database } from "../store/database.ts";
import { assertMayUseAgent } from "./bound-agent.ts";
import { decodePageToken, nextPageToken, pageKind, pageSizeFrom } from "./paging.ts";
import { decisionRecordFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { agentStatusEnum, agentStatusWord, timestampFromMs } from "./words.ts";

/** What the agent service works with. */
export interface AgentServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Pick<Database, "pool">;
  /** Milliseconds between heartbeats of a stream that has nothing to say. */
  readonly heartbeatMs: number;
}

const CHANGES: Readonly<Record<AgentChange["kind"], ChangeKind>> = {
  active: ChangeKind.ACTIVE,
  deactivated: ChangeKind.DEACTIVATED,
  revoked: ChangeKind.REVOKED,
  killed: ChangeKind.KILLED,
};

function changeFrom({
  kind,
  sessionId,
  revocationId,
  atMs,
}: AgentChange): MessageInitShape<typeof WatchAgentResponseSchema> {
  return { change: CHANGES[kind], sessionId, revocationId, at: timestampFromMs(atMs) };
}

/** Decisions that GetAgent shows. */
const RECENT_DECISIONS = 20;

const CAUSES = { allow: "action_allowed", block: "action_blocked", escalate: "action_escalated" } as const;

function registrationFrom(request: RegisterAgentRequest): AgentRegistration {
  const { name, framework, description, capabilities, permissions } = request;
  const { allowedActionTypes = [], deniedActionTypes = [] } = permissions ?? {};
  return { name, framework, description, capabilities, allowedActionTypes, deniedActionTypes };
}

function messageFrom(agent: AgentState): MessageInitShape<typeof AgentSchema> {
  const { agentId, registration, status, trustTenths, deactivatedAtMs } = agent;
  return {
    agentId,
    name: registration.name,
    framework: registration.framework,
    description: registration.description,
    capabilities: [...registration.capabilities],
    permissions: {
      allowedActionTypes: [...registration.allowed_action_types],
      deniedActionTypes: [...registration.denied_action_types],
    },
    trustLevel: trustTenths / 10,
    status: agentStatusEnum(status),
    departmentIds: [...agent.departmentIds],
    registeredAt: timestampFromMs(agent.registeredAtMs),
    deactivatedAt: deactivatedAtMs === null ? undefined : timestampFromMs(deactivatedAtMs),
  };
}

function trustChangeFrom({ body }: DecisionReceipt): MessageInitShape<typeof TrustChangeSchema> {
  const { before, after } = body.trust;
  return {
    at: timestampFromMs(Date.parse(body.at)),
    trustLevel: after,
    // In whole tenths, since the difference of two decimals is seldom one.
    change: (Math.round(after * 10) - Math.round(before * 10)) / 10,
    decisionId: body.decision_id,
    cause: CAUSES[body.decision],
  };
}

/** Creates the functions of AgentService. */
export function createAgentService({ logs, database, heartbeatMs }: AgentServiceOptions): ServiceDefinition {
  const { pool } = database;
  return defineService(AgentService, {
    async registerAgent(request, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { agent: messageFrom(await registerAgent(log, caller.keyId, registrationFrom(request))) };
    },

    async listAgents(request, { caller }) {
      const { status, departmentId, pageToken } = request;
      const kind = pageKind("agents", status, departmentId);
      const page = { size: pageSizeFrom(request), after: decodePageToken(kind, pageToken) };
      const filter = { status: agentStatusWord(status), departmentId: departmentId || undefined };
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const { items, next } = listAgents(state, filter, page);
      return { agents: items.map(messageFrom), nextPageToken: nextPageToken(kind, next) };
    },

    async getAgent({ agentId }, { caller }) {
      assertMayUseAgent(caller, agentId);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const agent = messageFrom(agentOf(state, agentId));
      const { items } = await listDecisionReceipts(pool, state.workspaceId, { agentId }, { size: RECENT_DECISIONS });
      return { agent, recentDecisions: items.map(decisionRecordFrom) };
    },

    async getAgentHistory(request, { caller }) {
      const { agentId, pageToken } = request;
      assertMayUseAgent(caller, agentId);
      const kind = pageKind("agent history", agentId);
      const page = { size: pageSizeFrom(request), after: decodePageToken(kind, pageToken) };
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      agentOf(state, agentId);
      const { items, next } = await listDecisionReceipts(pool, state.workspaceId, { agentId }, page);
      return {
        trustHistory: items.map(trustChangeFrom),
        decisions: items.map(decisionRecordFrom),
        nextPageToken: nextPageToken(kind, next),
      };
    },

    async deactivateAgent({ agentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { agent: messageFrom(await deactivateAgent(log, caller.keyId, agentId)) };
    },
    async *watchAgent({ agentId }, { caller, signal }) {
      assertMayUseAgent(caller, agentId);
      const log = await logs.of(caller.workspaceId);
      for await (const change of watchAgent(log, agentId, { heartbeatMs, signal })) {
        if (change !== undefined) yield changeFrom(change);
        else yield { change: ChangeKind.HEARTBEAT, at: timestampFromMs(logs.clock.now()) };
      }
    },
  });
}
