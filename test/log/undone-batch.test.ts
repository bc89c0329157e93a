import { expect } from "chai";
import type { PoolClient } from "pg";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { steps } from "../../src/decision/decide.ts";
import { Batch } from "../../src/log/batch.ts";
import type { PendingDecision } from "../../src/log/queue.ts";
import { completeWindows } from "../../src/state/counters/log-history.ts";
import { loadEscalation, loadState } from "../../src/state/load.ts";
import type { Action } from "../../src/state/types.ts";
import type { WorkspaceState } from "../../src/state/workspace.ts";
import { APPEND_PARAMETERS } from "../../src/store/sql/append-entries.ts";
import { actionOf, actionRule, type TestWorkspace, velocityRule, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";

/** Appends, each of them preceded by batches that come to nothing. */
const APPENDS = 150;
const SEEDS = [1, 2, 3];

const pending = (action: Action): PendingDecision => ({
  action,
  steps: steps(action),
  isAbandoned: () => false,
  resolve: () => undefined,
  reject: (error) => {
    throw error;
  },
});

/** Decides a batch; gives it with what it would write. */
async function decided(state: WorkspaceState, actions: readonly Action[], nowMs: number) {
  const batch = new Batch(state, actions.map(pending), nowMs, Number.POSITIVE_INFINITY);
  batch.decide();
  let written: unknown;
  const query = async ({ values }: { values: unknown }) => {
    written = values;
    return { rows: [] };
  };
  await batch.send({ query } as unknown as PoolClient);
  return { batch, written };
}

/** Publishes rules of every kind that remembers something, and gives what actions may present. */
async function furnish(workspace: TestWorkspace) {
  const agentIds = await workspace.newAgents(4);
  const [first = "", second = "", third = ""] = agentIds;
  await workspace.department(first, second);
  await workspace.department(second, third);
  const sequence = { mode: SequenceMode.ORDERED, steps: ["read", "pay", "send"], windowSeconds: 2n };
  const ordered = (scope: Scope) => ({
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: { ...sequence, scope },
  });
  await workspace.mandate([actionRule(Decision.ESCALATE, "drop")]);
  for (const scope of [Scope.AGENT, Scope.DEPARTMENT, Scope.WORKSPACE]) {
    await workspace.mandate([velocityRule(6, { scope, windowSeconds: 1n }, Decision.ESCALATE)]);
    await workspace.mandate([ordered(scope)]);
  }
  const escalationIds: string[] = [];
  const contractIds: string[] = [];
  for (const agentId of agentIds) {
    const contract = { agentId, goal: "anything, 20 times", allowedActionTypes: ["*"], maxActions: 20n };
    contractIds.push((await workspace.authority.createIntentContract(contract)).intentContract?.intentContractId ?? "");
    const { escalationId = "" } = await workspace.intercept({ agentId, actionType: "drop" });
    await workspace.resolve(escalationId);
    escalationIds.push(escalationId);
  }
  return { agentIds, escalationIds, contractIds };
}

describe("batches that are undone", () => {
  for (const seed of SEEDS) {
    it(`leave nothing that a later decision could show (${seed}).`, () =>
      withWorkspace({}, async (workspace) => {
        const below = seededBelow(seed);
        const { agentIds, escalationIds, contractIds } = await furnish(workspace);
        const { pool } = workspace.database;
        let nowMs = Date.now() + 60_000;
        const open = async (): Promise<WorkspaceState> => {
          const state = await loadState(pool, "default");
          for (const id of escalationIds) {
            const escalation = await loadEscalation(pool, "default", id);
            if (escalation !== undefined) state.escalations.put(escalation);
          }
          await completeWindows(pool, state, { now: () => nowMs });
          return state;
        };
        const [tried, plain] = [await open(), await open()];
        const someAction = (): Action => {
          const agent = below(agentIds.length);
          const actionType = ["read", "pay", "send", "drop", "other"][below(5)] as string;
          const action = actionOf({ agentId: agentIds[agent] as string, actionType });
          const escalationId = actionType === "drop" && below(8) === 0 ? escalationIds[agent] : undefined;
          return { ...action, escalationId, intentContractId: below(4) === 0 ? contractIds[agent] : undefined };
        };
        const someActions = () => Array.from({ length: 1 + below(12) }, someAction);
        const seen = new Set<string>();
        for (let append = 0; append < APPENDS; append++) {
          const undone: Batch[] = [];
          const startMs = nowMs;
          for (let count = below(3); count > 0; count--) {
            nowMs = Math.min(startMs + 499, nowMs + below(300));
            undone.push((await decided(tried, someActions(), nowMs)).batch);
          }
          for (const batch of undone.reverse()) batch.undo();
          nowMs += below(400);
          const actions = someActions();
          const { written } = await decided(tried, actions, nowMs);
          expect(written).to.deep.equal((await decided(plain, actions, nowMs)).written);
          const decisions = (written as unknown[])[APPEND_PARAMETERS.indexOf("entry.decision")] as string;
          for (const decision of decisions.split("\n")) seen.add(decision);
        }
        const usesOf = (state: WorkspaceState) => contractIds.map((id) => state.authority.get(id)?.uses);
        expect(usesOf(tried)).to.deep.equal(usesOf(plain));
        expect(usesOf(plain)).to.include(20);
        expect(seen.size).to.equal(3);
        const used = escalationIds.filter((id) => plain.escalations.get(id)?.usedBy !== null);
        expect(used).to.have.length(escalationIds.length);
      }));
  }
});
