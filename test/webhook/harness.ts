import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { resolveEscalation } from "../../src/escalation/escalation.ts";
import type { WorkspaceLog } from "../../src/log/workspace-log.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import { createMandate } from "../../src/registry/mandates.ts";
import { registerTool } from "../../src/registry/tools.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import type { SealedDecision } from "../../src/state/types.ts";
import { createId } from "../../src/store/ids.ts";
import type { WebhookCaller } from "../../src/webhook/webhooks.ts";
import { createTestDatabase } from "../support/database.ts";
import { openReplica, type Replica } from "./replica.ts";

/** The workspace of the tests and the key that calls. */
export const CALLER: WebhookCaller = { workspaceId: "default", keyId: "key_test" };
/** Every event. */
export const EVERYTHING = [
  "agent.revoked",
  "escalation.created",
  "escalation.resolved",
  "decision.blocked",
  "tool.changed",
];

/** Text that no webhook may ever carry. */
export const PERSONAL = "Jane Roe, 555-0100";

/** A workspace in which things happen. */
export interface Stage extends Replica {
  readonly url: string;
  readonly log: WorkspaceLog;
  readonly agentId: string;
  block(): Promise<SealedDecision>;
  allow(): Promise<SealedDecision>;
  escalate(): Promise<SealedDecision>;
  reject(decision: SealedDecision): Promise<void>;
  changeTool(name: string): Promise<void>;
  revoke(): Promise<void>;
  /** Another process on the same database; closed with the stage. */
  replica(): Promise<Replica>;
}

function attempt(log: WorkspaceLog, agentId: string, actionType: string): Promise<SealedDecision> {
  const action = {
    ...{ agentId, actionType, normalisedType: actionType, actionContent: PERSONAL, keyId: "key_test" },
    decisionId: createId("dec"),
    isRetryable: false,
    metadata: { note: PERSONAL },
    metadataText: JSON.stringify({ note: PERSONAL }),
    ...{ tool: undefined, sessionId: undefined, onBehalfOf: undefined, grantId: undefined },
    ...{ intentContractId: undefined, escalationId: undefined },
  };
  return log.decide(action, () => false);
}

async function prepare(log: WorkspaceLog): Promise<string> {
  const { agentId } = await registerAgent(log, "key_test", {
    ...{ name: "payer", framework: "", description: "" },
    ...{ capabilities: [], allowedActionTypes: [], deniedActionTypes: ["drop"] },
  });
  const conditions = { matchActionTypes: ["pay"] };
  const rule = create(RuleSchema, { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions });
  const mandate = { name: "ask", description: "", scope: "workspace", priority: 0, mode: "enforce" } as const;
  const kept = { departmentId: undefined, agentId: undefined };
  await createMandate(log, "key_test", { ...mandate, ...kept, rules: [rule] });
  return agentId;
}

/** Creates a workspace with an agent whose `drop` is blocked and whose `pay` escalates. */
export async function createStage(): Promise<Stage> {
  const test = await createTestDatabase();
  const replicas = [await openReplica(test.url)];
  const [first] = replicas as [Replica];
  await createWorkspace({ database: first.database, nowMs: Date.now(), by: "system" }, CALLER);
  const log = await first.logs.of(CALLER.workspaceId);
  const agentId = await prepare(log);
  return {
    ...first,
    ...{ url: test.url, log, agentId },
    block: () => attempt(log, agentId, "drop"),
    allow: () => attempt(log, agentId, "look"),
    escalate: () => attempt(log, agentId, "pay"),
    async reject({ escalationId = "" }) {
      const { pool } = first.database;
      await resolveEscalation({ log, pool }, { escalationId, resolution: "rejected", note: PERSONAL, by: "key_test" });
    },
    async changeTool(name) {
      const inputSchema = { type: "object", properties: {}, description: PERSONAL };
      await registerTool(log, "key_test", { name, description: undefined, inputSchema, source: ToolSource.API });
    },
    async revoke() {
      const ended = {
        ...{ sessions: ["ses_1", "ses_2"], credentials: [], grants_given: [], grants_received: [] },
        ...{ temporal_windows: [], intent_contracts: [], federation_tokens: [], mcp_tool_policies: [] },
      };
      await log.change("key_test", async ({ seal }) => {
        const ids = { agent_id: agentId, revocation_id: "rev_1", certificate_digest: "00" };
        seal({ type: "agent_revoked", ...ids, reason: PERSONAL, ended });
      });
    },
    async replica() {
      const replica = await openReplica(test.url);
      replicas.push(replica);
      return replica;
    },
    async close() {
      for (const replica of replicas) await replica.close();
      await test.drop();
    },
  };
}

/** Resolves when something holds; the test's own time limit is the only one. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await delay(10);
}

/** The same list without repetitions, each kept where it came first. */
export const firstOf = (seqs: readonly number[]): number[] => [...new Set(seqs)];

/** A clock that a test moves. */
export function createFakeClock() {
  let ms = Date.now();
  return {
    now: () => ms,
    move(by: number) {
      ms += by;
    },
  };
}
