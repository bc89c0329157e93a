import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { MandateService, type RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { ControlPlane, GuardOptions } from "../../src/client/index.ts";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startServer, type TestServer } from "../support/server.ts";

/** A server with mandates that decide by action type: `danger.*` blocks, `review.*` escalates, all else passes. */
export interface Fixture {
  readonly database: TestDatabase;
  readonly server: TestServer;
  /** The library with the administrator's key, over HTTP. */
  readonly admin: ControlPlane;
  /** Registers an agent; gives its id. */
  registerAgent(): Promise<string>;
  resolve(escalationId: string, how: "approved" | "rejected"): Promise<void>;
  /** The ids of all decisions on an agent's actions. */
  decisionIdsOf(agentId: string): Promise<string[]>;
  stop(): Promise<void>;
}

const RULES: readonly MessageInitShape<typeof RuleSchema>[] = [
  {
    type: RuleType.ACTION,
    decision: Decision.BLOCK,
    conditions: { matchActionTypes: ["danger.*"] },
    description: "too dangerous",
  },
  { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["review.*"] } },
];

/** Starts the server on a database of its own and publishes the mandate `house rules`. */
export async function startFixture(env: Readonly<Record<string, string>> = {}): Promise<Fixture> {
  const database = await createTestDatabase();
  const server = await startServer({ databaseUrl: database.url, env });
  const admin = createNodeControlPlane({ baseUrl: server.http, apiKey: server.adminKey });
  await admin.client(MandateService).createMandate({ name: "house rules", rules: [...RULES] });
  return {
    database,
    server,
    admin,
    registerAgent: () => registerAgent(admin),
    resolve: (escalationId, how) => resolve(admin, escalationId, how),
    decisionIdsOf: (agentId) => decisionIdsOf(admin, agentId),
    stop: async () => {
      admin.close();
      await server.stop();
      await database.drop();
    },
  };
}

async function registerAgent(admin: ControlPlane): Promise<string> {
  const { agent } = await admin.client(AgentService).registerAgent({ name: `agent ${randomUUID()}` });
  return agent?.agentId ?? "";
}

async function resolve(admin: ControlPlane, escalationId: string, how: "approved" | "rejected"): Promise<void> {
  const resolution = how === "approved" ? Resolution.APPROVED : Resolution.REJECTED;
  await admin.client(EscalationService).resolveEscalation({ escalationId, resolution });
}

async function decisionIdsOf(admin: ControlPlane, agentId: string): Promise<string[]> {
  const ids: string[] = [];
  for (let pageToken = ""; ; ) {
    const page = await admin.client(EnforcementService).listDecisions({ agentId, pageSize: 500, pageToken });
    ids.push(...page.decisions.map(({ decisionId }) => decisionId));
    if (page.nextPageToken === undefined) return ids;
    pageToken = page.nextPageToken;
  }
}

/** A function that counts its runs, and a guard around it. */
export interface Probe {
  readonly runs: unknown[];
  call(value: unknown): Promise<string>;
}

/** Guards a function of one argument for an agent's actions. */
export function createProbe(
  controlPlane: ControlPlane,
  options: Pick<GuardOptions<[unknown]>, "agentId" | "actionType"> & Partial<GuardOptions<[unknown]>>,
): Probe {
  const runs: unknown[] = [];
  const run = (value: unknown): string => `ran ${runs.push(value)}`;
  return { runs, call: controlPlane.guard(run, { toArguments: (value) => ({ value }), ...options }) };
}

/** What a promise rejects with. Fails when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: Error) => ({ error }),
  );
  if ("error" in outcome) return outcome.error;
  throw new Error(`it did not reject but gave ${JSON.stringify(outcome.value)}`);
}

/** The first escalation that an agent has pending, as soon as there is one. */
export async function pendingEscalationOf(admin: ControlPlane, agentId: string): Promise<string> {
  const watching = new AbortController();
  try {
    const changes = admin.client(EscalationService).watchEscalations({}, { signal: watching.signal });
    for await (const { escalation } of changes) {
      if (escalation?.agentId === agentId) return escalation.escalationId;
    }
    throw new Error("the watch ended without an escalation");
  } finally {
    watching.abort();
  }
}

/** An address on which nobody listens. */
export const NOWHERE = "http://127.0.0.1:1";
