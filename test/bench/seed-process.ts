/*
 * Fills a database before the service starts on it, through the same code as the service, but many changes to a
 * transaction: 100,000 requests would take longer than everything else of the benchmark.
 */

import { fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import type { Caller } from "../../src/api/context.ts";
import type { ChangeScope } from "../../src/log/changes.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { createMandate, type MandateDraft } from "../../src/registry/mandates.ts";
import { registerTools } from "../../src/registry/tools.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import type { SealedAgent, SealedMandate } from "../../src/state/control-changes.ts";
import { AGENT_STATUS_NUMBERS } from "../../src/state/types.ts";
import { openDatabase } from "../../src/store/database.ts";
import {
  AgentEntity,
  DepartmentEntity,
  DepartmentMemberEntity,
  MandateVersionEntity,
} from "../../src/store/entities.ts";
import { createId } from "../../src/store/ids.ts";
import { digestOf } from "../../src/tree/canonical.ts";
import { decideOn } from "../support/decide-on.ts";
import { serveParent } from "./child.ts";
import { fillLog, type Past } from "./fill-log.ts";
import { SILENT_LOG } from "./postgres.ts";
import {
  MANDATES,
  OTHER_TOOLS,
  otherMandate,
  otherTool,
  plainRequestsOf,
  requestsOf,
  TOOL,
  TOOL_SCHEMA,
  type WrittenMandate,
} from "./workload.ts";

/** What a database is to hold. */
export interface Seed {
  readonly databaseUrl: string;
  /** The workspace to make. Default `bench`. */
  readonly workspaceId?: string;
  readonly agents: number;
  /** Mandates on tools that the load never calls, beside the ten that it meets. */
  readonly otherMandates: number;
  /** Decisions that are in the log already. */
  readonly decisions: number;
  /** More mandates that the load meets. Default: only the ten. */
  readonly moreMandates?: readonly WrittenMandate[];
  /** Decisions at the beginning of the log. Default: none. */
  readonly past?: Past;
  /** Characters of the content of their actions, which then have nothing else. Default: they are actions of the load. */
  readonly contentLength?: number;
}

/** How a seeded workspace is used. */
export interface Seeded {
  readonly apiKey: string;
  readonly agentIds: readonly string[];
}

const WORKSPACE = "bench";
const BY = "system";
/** Departments are small: what one costs does not depend on it. */
const AGENTS_A_DEPARTMENT = 10;
const AGENTS_A_CHANGE = 500;
/** Each takes time in a transaction, which the database ends if it waits for long. */
const MANDATES_A_CHANGE = 100;
const DECISIONS_UNDER_WAY = 4_096;

async function addTools(log: WorkspaceLog, names: readonly string[]): Promise<void> {
  const drafts = names.map((name) => ({
    name,
    description: "moves money",
    inputSchema: TOOL_SCHEMA as never,
    source: ToolSource.API,
  }));
  await registerTools(log, BY, drafts);
}

function sealedAgent(scope: ChangeScope, name: string): SealedAgent {
  return {
    agent_id: createId("agt"),
    name,
    framework: "bench",
    description: "pays what is due",
    capabilities: ["payment.*"],
    allowed_action_types: ["payment.*", "report.read"],
    denied_action_types: ["admin.*"],
    trust_tenths: scope.state.settings.initial_trust_tenths,
  };
}

async function registerMany(scope: ChangeScope, first: number, count: number): Promise<string[]> {
  const { transaction, nowMs, nextSeq, seal } = scope;
  const { workspaceId } = scope.state;
  const rows = Array.from({ length: count }, (_, index) => {
    const agent = sealedAgent(scope, `agent ${first + index}`);
    const row = {
      workspaceId,
      agentId: agent.agent_id,
      createdSeq: nextSeq(),
      resource: structuredClone(agent) as never,
      status: AGENT_STATUS_NUMBERS.active,
      trustTenths: agent.trust_tenths,
      registeredAtMs: nowMs,
      deactivatedAtMs: null,
    };
    seal({ type: "agent_registered", agent });
    return row;
  });
  await transaction.insertMany(AgentEntity, rows);
  return rows.map(({ agentId }) => agentId);
}

async function groupMany(scope: ChangeScope, first: number, agentIds: readonly string[]): Promise<void> {
  const { transaction, nowMs, nextSeq, seal } = scope;
  const { workspaceId } = scope.state;
  const departments = [];
  const members = [];
  for (let start = 0; start < agentIds.length; start += AGENTS_A_DEPARTMENT) {
    const department = { department_id: createId("dep"), name: `department ${first + start}`, description: "" };
    const { department_id: departmentId, name, description } = department;
    departments.push({ workspaceId, departmentId, name, description, createdAtMs: nowMs, createdSeq: nextSeq() });
    seal({ type: "department_created", department });
    for (const agentId of agentIds.slice(start, start + AGENTS_A_DEPARTMENT)) {
      members.push({ workspaceId, departmentId, agentId });
      seal({ type: "department_member_added", department_id: departmentId, agent_id: agentId });
    }
  }
  await transaction.insertMany(DepartmentEntity, departments);
  await transaction.insertMany(DepartmentMemberEntity, members);
}

async function addAgents(log: WorkspaceLog, count: number): Promise<string[]> {
  const agentIds: string[] = [];
  while (agentIds.length < count) {
    const first = agentIds.length;
    const added = await log.change(BY, async (scope) => {
      const ids = await registerMany(scope, first, Math.min(AGENTS_A_CHANGE, count - first));
      await groupMany(scope, first, ids);
      return ids;
    });
    agentIds.push(...added);
  }
  return agentIds;
}

function draftFrom({ name, mode, rules }: WrittenMandate): MandateDraft {
  const scope = { scope: "workspace", departmentId: undefined, agentId: undefined } as const;
  return { name, description: "", ...scope, priority: 0, mode, rules: rules.map((rule) => fromJson(RuleSchema, rule)) };
}

function sealedMandate(written: WrittenMandate): SealedMandate {
  const { name, description, scope, priority, mode, rules } = draftFrom(written);
  const json = rules.map((rule) => toJson(RuleSchema, rule, { useProtoFieldName: true }));
  const definition: JsonObject = { name, description, scope, priority, mode, rules: json };
  return { mandate_id: createId("mnd"), version: 1, digest: digestOf(definition), definition };
}

async function addOtherMandates(log: WorkspaceLog, first: number, count: number): Promise<void> {
  await log.change(BY, async ({ transaction, state, nowMs, nextSeq, seal }) => {
    const rows = Array.from({ length: count }, (_, index) => {
      const mandate = sealedMandate(otherMandate(first + index));
      const { mandate_id: mandateId, version, digest, definition } = mandate;
      const times = { createdAtMs: nowMs, updatedAtMs: nowMs, createdSeq: nextSeq() };
      seal({ type: "mandate_published", mandate, policy_digest: state.policies.digestWith(mandate) });
      return {
        workspaceId: state.workspaceId,
        mandateId,
        version,
        digest,
        ...times,
        archived: false,
        pack: null,
        createdBy: BY,
        note: "",
        restoredFrom: null,
        definition: structuredClone(definition) as never,
      };
    });
    await transaction.insertMany(MandateVersionEntity, rows);
  });
}

async function addPolicies(log: WorkspaceLog, { otherMandates, moreMandates = [] }: Seed): Promise<void> {
  await addTools(log, [TOOL]);
  for (const mandate of [...MANDATES, ...moreMandates])
    await createMandate(log, { by: BY, note: "" }, draftFrom(mandate));
  if (otherMandates === 0) return;
  await addTools(
    log,
    Array.from({ length: OTHER_TOOLS }, (_, index) => otherTool(index)),
  );
  for (let done = 0; done < otherMandates; done += MANDATES_A_CHANGE) {
    await addOtherMandates(log, done, Math.min(MANDATES_A_CHANGE, otherMandates - done));
  }
}

async function addDecisions(log: WorkspaceLog, caller: Caller, requests: readonly InterceptRequest[], count: number) {
  for (let done = 0; done < count; done += DECISIONS_UNDER_WAY) {
    const size = Math.min(DECISIONS_UNDER_WAY, count - done);
    const decisions = Array.from({ length: size }, (_, index) =>
      decideOn(log, actionFrom(requests[(done + index) % requests.length] as InterceptRequest, caller)),
    );
    await Promise.all(decisions);
  }
}

async function seed(size: Seed): Promise<Seeded> {
  const { databaseUrl: url, workspaceId = WORKSPACE, agents, decisions, contentLength, past } = size;
  const database = await openDatabase({ url, poolSize: 5, log: SILENT_LOG });
  const context = { database, nowMs: Date.now() - 2 * (past?.overMs ?? 0), by: BY };
  const { key, secret } = await createWorkspace(context, { workspaceId });
  if (past !== undefined) await fillLog(url, workspaceId, past);
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  const log = await logs.of(workspaceId);
  await addPolicies(log, size);
  const agentIds = await addAgents(log, agents);
  const caller = { keyId: key.keyId, workspaceId, role: Role.ADMIN, agentId: null };
  const requests = contentLength === undefined ? requestsOf(agentIds) : plainRequestsOf(agentIds, contentLength);
  await addDecisions(log, caller, requests, decisions);
  // Nothing is closed: the process is killed next, and leaves what a crash leaves.
  return { apiKey: secret, agentIds };
}

serveParent(seed);
