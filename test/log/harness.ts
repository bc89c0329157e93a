import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  EnforcementService,
  type InterceptRequestSchema,
  type InterceptResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import {
  type ConditionsSchema,
  type RuleSchema,
  RuleType,
  SequenceMode,
} from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { createEnforcementService } from "../../src/api/enforcement-service.ts";
import { createEscalationService } from "../../src/api/escalation-service.ts";
import { createIntercept } from "../../src/decision/intercept.ts";
import { type DecisionReceipt, readReceipts } from "../../src/log/receipts.ts";
import { listenForWakeUps, type WakeUps } from "../../src/log/wake-ups.ts";
import type { LogSurroundings } from "../../src/log/workspace-log.ts";
import type { Guard } from "../../src/semantic/guard.ts";
import { SILENT_LOG } from "../support/database.ts";
import { NO_GUARD } from "../support/no-guard.ts";
import {
  clientOf,
  createTestWorkspace,
  type Replica,
  type ServiceClient,
  type TestWorkspace,
} from "../support/workspace.ts";

export { seededBelow } from "../support/seeded-below.ts";

type RuleInit = MessageInitShape<typeof RuleSchema>;
type ConditionsInit = MessageInitShape<typeof ConditionsSchema>;
type InterceptInit = MessageInitShape<typeof InterceptRequestSchema>;

/** A replica with the services that decide, hearing the wake-ups of the others. */
export interface Party extends Replica {
  readonly enforcement: ServiceClient<typeof EnforcementService>;
  readonly escalations: ServiceClient<typeof EscalationService>;
}

/** A workspace with replicas, and shorthands of what tests do most. */
export interface Stage {
  readonly workspace: TestWorkspace;
  readonly url: string;
  readonly parties: readonly Party[];
  /** The first replica. */
  readonly party: Party;
  agent(init?: object): Promise<string>;
  department(...members: readonly string[]): Promise<string>;
  /** Publishes a mandate of one or more rules; gives its id. */
  mandate(rules: readonly RuleInit[], init?: object): Promise<string>;
  intercept(init: InterceptInit, party?: Party): Promise<InterceptResponse>;
  receipt(decisionId: string): Promise<DecisionReceipt>;
  resolve(escalationId: string, resolution?: Resolution, party?: Party): Promise<unknown>;
  close(): Promise<void>;
}

let mandates = 0;

function partyOf(replica: Replica, { adminCaller }: TestWorkspace, guard: Guard): Party {
  const { pool } = replica.database;
  const enforcement = createEnforcementService({ intercept: createIntercept(replica.logs, guard), pool });
  const escalation = createEscalationService({ logs: replica.logs, pool, heartbeatMs: 1_000 });
  return {
    ...replica,
    enforcement: clientOf(EnforcementService, enforcement, adminCaller),
    escalations: clientOf(EscalationService, escalation, adminCaller),
  };
}

/** Opens a workspace on a new database with some replicas, which ask a guard where they are given one. */
export async function openStage(replicas = 1, guard = NO_GUARD, surroundings?: LogSurroundings): Promise<Stage> {
  const workspace = await createTestWorkspace();
  const parties = [partyOf(workspace, workspace, guard)];
  while (parties.length < replicas) parties.push(partyOf(await workspace.replica(surroundings), workspace, guard));
  const wakeUps: WakeUps[] = [];
  for (const { logs } of parties) wakeUps.push(await listenForWakeUps(workspace.url, SILENT_LOG, logs.wakeUp));
  const party = parties[0] as Party;
  const { agents, departments, mandates: mandateService } = party.services;
  return {
    workspace,
    url: workspace.url,
    parties,
    party,
    agent: async (init = {}) => (await agents.registerAgent({ name: "agent", ...init })).agent?.agentId ?? "",
    async department(...members) {
      const { department } = await departments.createDepartment({ name: randomUUID() });
      const departmentId = department?.departmentId ?? "";
      for (const agentId of members) await departments.addDepartmentMember({ departmentId, agentId });
      return departmentId;
    },
    async mandate(rules, init = {}) {
      const { mandate } = await mandateService.createMandate({
        name: `mandate ${++mandates}`,
        rules: [...rules],
        ...init,
      });
      return mandate?.mandateId ?? "";
    },
    intercept: (init, by = party) => by.enforcement.intercept(init),
    async receipt(decisionId) {
      const receipts = await readReceipts(party.database.pool, workspace.workspaceId, [decisionId]);
      return receipts.get(decisionId) as DecisionReceipt;
    },
    resolve: (escalationId, resolution = Resolution.APPROVED, by = party) =>
      by.escalations.resolveEscalation({ escalationId, resolution }),
    async close() {
      for (const wakeUp of wakeUps) await wakeUp.close();
      await workspace.close();
    },
  };
}

/** Runs a test on a stage of its own, which is closed however the test ends. */
export async function withStage(replicas: number, use: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = await openStage(replicas);
  try {
    await use(stage);
  } finally {
    await stage.close();
  }
}

/** A rule that fires on action types. */
export function actionRule(decision: Decision, ...matchActionTypes: string[]): RuleInit {
  return { type: RuleType.ACTION, decision, conditions: { matchActionTypes } };
}

/** A rule that fires when more than `maxCount` actions that match `pay*` come within the window. */
export function velocityRule(maxCount: number, conditions: ConditionsInit = {}, decision = Decision.BLOCK): RuleInit {
  return {
    type: RuleType.SEQUENCE,
    decision,
    conditions: {
      mode: SequenceMode.VELOCITY,
      matchActionTypes: ["pay*"],
      maxCount: BigInt(maxCount),
      windowSeconds: 3600n,
      scope: Scope.AGENT,
      ...conditions,
    },
  };
}

/** What some promises came to: how many were fulfilled, and the reasons of the others. */
export async function settled<T>(calls: readonly Promise<T>[]): Promise<{ values: T[]; errors: unknown[] }> {
  const results = await Promise.allSettled(calls);
  return {
    values: results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])),
    errors: results.flatMap((result) => (result.status === "rejected" ? [result.reason] : [])),
  };
}
