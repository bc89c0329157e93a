import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type AgentRequirement,
  type AgentSchema,
  AgentService,
  AgentChange as ChangeKind,
  type RegisterAgentRequest,
  type TrustChangeSchema,
  type WatchAgentResponseSchema,
} from "../../gen/agentcontrol/v1/agent_service_pb.js";
import type { DecisionReceipt } from "../log/receipts.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ActorNames } from "../registry/actor-names.ts";
import {
  type AgentChange,
  type AgentRegistration,
  deactivateAgent,
  getAgent,
  listAgents,
  registerAgent,
  setAgentRequirements,
  watchAgent,
} from "../registry/agents.ts";
import { listDecisionReceipts, readLastActions } from "../registry/decisions.ts";
import { getDepartment } from "../registry/departments.ts";
import type { AgentState } from "../state/agents.ts";
import type { Database } from "../store/database.ts";
import { assertMayUseAgent } from "./bound-agent.ts";
import { agentOrderMapping, agentRequirementMapping, agentStatusMapping } from "./enum-mapping.ts";
import { optionalTimestamp } from "./field-values.ts";
import { namePageFrom, pageFrom } from "./paging.ts";
import { decisionRecordsFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";

/** Parts that AgentService needs. */
export interface AgentServiceOptions {
  readonly logs: WorkspaceLogs;
  readonly database: Pick<Database, "pool">;
  /** Milliseconds between heartbeats on a quiet stream. */
  readonly heartbeatMs: number;
}

const CHANGES: Readonly<Record<AgentChange["kind"], ChangeKind>> = {
  active: ChangeKind.ACTIVE,
  deactivated: ChangeKind.DEACTIVATED,
  revoked: ChangeKind.REVOKED,
  killed: ChangeKind.KILLED,
};

function changeFrom(change: AgentChange): MessageInitShape<typeof WatchAgentResponseSchema> {
  const { kind, sessionId, revocationId, atMs } = change;
  return { change: CHANGES[kind], sessionId, revocationId, at: timestampFromMs(atMs) };
}

/** Number of decisions in a GetAgent response. */
const RECENT_DECISIONS = 20;

const CAUSES = { allow: "action_allowed", block: "action_blocked", escalate: "action_escalated" } as const;

const requirementsFrom = (requires: readonly AgentRequirement[]) =>
  requires.flatMap((each) => agentRequirementMapping.fromProto(each) ?? []);

function registrationFrom(request: RegisterAgentRequest): AgentRegistration {
  const { name, framework, description, capabilities, permissions, requires } = request;
  const { allowedActionTypes = [], deniedActionTypes = [] } = permissions ?? {};
  const registration = { name, framework, description, capabilities, allowedActionTypes, deniedActionTypes };
  return { ...registration, requires: requirementsFrom(requires) };
}

function messageFrom(agent: AgentState, lastActionMs?: number): MessageInitShape<typeof AgentSchema> {
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
    status: agentStatusMapping.toProto[status],
    requires: agent.requires.map((each) => agentRequirementMapping.toProto[each]),
    departmentIds: [...agent.departmentIds],
    registeredAt: timestampFromMs(agent.registeredAtMs),
    deactivatedAt: optionalTimestamp(deactivatedAtMs),
    lastActionAt: optionalTimestamp(lastActionMs),
  };
}

function trustChangeFrom({ body }: DecisionReceipt): MessageInitShape<typeof TrustChangeSchema> {
  const { before, after } = body.trust;
  return {
    at: timestampFromMs(Date.parse(body.at)),
    trustLevel: after,
    // Subtracted in whole tenths: 50.2 - 50 is not 0.2 in binary fractions.
    change: (Math.round(after * 10) - Math.round(before * 10)) / 10,
    decisionId: body.decision_id,
    cause: CAUSES[body.decision],
  };
}

/** Creates the functions of AgentService. */
export function createAgentService({ logs, database, heartbeatMs }: AgentServiceOptions): ServiceDefinition {
  const { pool } = database;
  const names = new ActorNames(pool);
  return defineService(AgentService, {
    async registerAgent(request, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { agent: messageFrom(await registerAgent(log, caller.keyId, registrationFrom(request))) };
    },

    async listAgents(request, { caller }) {
      const { status, departmentId, q, orderBy } = request;
      const page = namePageFrom(request, "agents", status, departmentId, q, orderBy);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      const department = departmentId ? getDepartment(state, departmentId) : undefined;
      const filter = { status: agentStatusMapping.fromProto(status), department, namePrefix: q };
      const { items, next } = listAgents(state, filter, agentOrderMapping.fromProto(orderBy) ?? "newest", page);
      const lastActions = await readLastActions(
        pool,
        state.workspaceId,
        items.map((agent) => agent.agentId),
      );
      return {
        agents: items.map((agent) => messageFrom(agent, lastActions.get(agent.agentId))),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async getAgent({ agentId }, { caller }) {
      assertMayUseAgent(caller, agentId);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      // Before the next await: the figures are then no newer than the decisions.
      const agent = messageFrom(getAgent(state, agentId));
      const { items } = await listDecisionReceipts(pool, state.workspaceId, { agentId }, { size: RECENT_DECISIONS });
      const lastActionAt = optionalTimestamp(items[0] === undefined ? null : Date.parse(items[0].body.at));
      return {
        agent: { ...agent, lastActionAt },
        recentDecisions: await decisionRecordsFrom(pool, names, state.workspaceId, items),
      };
    },

    async getAgentHistory(request, { caller }) {
      const { agentId } = request;
      assertMayUseAgent(caller, agentId);
      const page = pageFrom(request, "agent history", agentId);
      const state = await (await logs.of(caller.workspaceId)).caughtUp();
      getAgent(state, agentId);
      const { items, next } = await listDecisionReceipts(pool, state.workspaceId, { agentId }, page);
      return {
        trustHistory: items.map(trustChangeFrom),
        decisions: await decisionRecordsFrom(pool, names, state.workspaceId, items),
        nextPageToken: page.tokenAfter(next),
      };
    },

    async deactivateAgent({ agentId }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { agent: messageFrom(await deactivateAgent(log, caller.keyId, agentId)) };
    },

    async setAgentRequirements({ agentId, requires }, { caller }) {
      const log = await logs.of(caller.workspaceId);
      return { agent: messageFrom(await setAgentRequirements(log, caller.keyId, agentId, requirementsFrom(requires))) };
    },

    async *watchAgent({ agentId, sessionIds }, context) {
      const { caller, signal } = context;
      assertMayUseAgent(caller, agentId);
      const log = await logs.of(caller.workspaceId);
      const onKeyEnd = (listener: () => void): void => context.onKeyEnd(listener);
      const sessions = { ids: sessionIds, now: () => logs.clock.now() };
      for await (const change of watchAgent(log, agentId, { heartbeatMs, signal, sessions, onKeyEnd })) {
        if (change !== undefined) yield changeFrom(change);
        else yield { change: ChangeKind.HEARTBEAT, at: timestampFromMs(logs.clock.now()) };
      }
    },
  });
}
