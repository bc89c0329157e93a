import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  actionRule,
  openWorkspace,
  type Replica,
  reasonOf,
  settled,
  type TestWorkspace,
  velocityRule,
} from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

/** A reply without how long it took and whether it is a repeat. */
const replyOf = ({ latencyMs: _, replayed: __, decidedAt: ___, ...reply }: InterceptResponse) => reply;

describe("retried requests", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  before(async () => {
    workspace = await openWorkspace({ replicas: 3 });
    agentId = await workspace.agent();
    await workspace.mandate([velocityRule(1, { matchActionTypes: ["pay.limited"] }, Decision.ESCALATE)]);
    await workspace.mandate([actionRule(Decision.BLOCK, "delete*")]);
  });
  after(() => workspace.close());

  const replicaAt = (index: number): Replica => workspace.replicas[index % workspace.replicas.length] as Replica;

  it("get the first decision unchanged, on every replica and whatever happened since.", async () => {
    for (const actionType of ["read", "delete.all", "pay.limited"]) {
      const request = { agentId, actionType, actionContent: "once", requestId: randomUUID(), metadata: { a: 1 } };
      const first = await workspace.intercept(request);
      for (const replica of workspace.replicas) {
        await workspace.intercept({ agentId, actionType }, replica);
        expect(replyOf(await workspace.intercept(request, replica))).to.deep.equal(replyOf(first));
      }
    }
  });

  const others = {
    agent: async () => ({ agentId: await workspace.agent() }),
    "action type": async () => ({ actionType: "write" }),
    "action content": async () => ({ actionContent: "other" }),
    metadata: async () => ({ metadata: { a: 2 } }),
    "no metadata": async () => ({ metadata: undefined }),
    tool: async () => ({ tool: "hammer" }),
    principal: async () => ({ onBehalfOf: await workspace.agent() }),
    session: async () => ({ sessionId: "ses_other" }),
    grant: async () => ({ grantId: "grt_other" }),
    "intent contract": async () => ({ intentContractId: "itc_other" }),
  };
  for (const [what, change] of Object.entries(others)) {
    it(`are refused when they come with another ${what}.`, async () => {
      const request = { agentId, actionType: "read", actionContent: "x", metadata: { a: 1 }, requestId: randomUUID() };
      await workspace.intercept(request);
      const changed = { ...request, ...(await change()) };
      for (const replica of workspace.replicas) {
        expect(await reasonOf(workspace.intercept(changed as never, replica))).to.equal("REQUEST_ID_REUSED");
      }
    });
  }

  it("with a blank tool are the same request.", async () => {
    const request = { agentId, actionType: "read", tool: " ", requestId: randomUUID() };
    const first = await workspace.intercept(request);
    expect(replyOf(await workspace.intercept(request))).to.deep.equal(replyOf(first));
  });

  it("sent 50 times at once to three replicas make one entry and get equal replies.", async () => {
    for (const actionType of ["read", "pay.limited"]) {
      const request = { agentId, actionType, requestId: randomUUID() };
      const calls = Array.from({ length: 50 }, (_, index) => workspace.intercept(request, replicaAt(index)));
      const replies = (await Promise.all(calls)).map(replyOf);
      for (const reply of replies) expect(reply).to.deep.equal(replies[0]);
      const made = decisionsOf(await readLog(workspace.url)).filter(
        (body) => body.decision_id === replies[0]?.decisionId,
      );
      expect(made).to.have.length(1);
    }
  });

  it("in a storm, every request sent to every replica at once, all get the first decision.", async () => {
    const below = seededBelow(7);
    const requests = Array.from({ length: 300 }, () => ({ agentId, actionType: "pay", requestId: randomUUID() }));
    const calls = workspace.replicas.flatMap((replica) => {
      const shuffled = requests
        .map((request) => ({ request, order: below(1_000_000) }))
        .sort((a, b) => a.order - b.order)
        .map(({ request }) => request);
      return shuffled.map(async (request) => ({ request, reply: await workspace.intercept(request, replica) }));
    });
    const { values, errors } = await settled(calls);
    expect(errors).to.deep.equal([]);
    const byRequest = Map.groupBy(values, ({ request }) => request.requestId);
    for (const group of byRequest.values()) {
      for (const { reply } of group)
        expect(replyOf(reply)).to.deep.equal(replyOf(group[0]?.reply as InterceptResponse));
    }
    assertIntact(await readLog(workspace.url));
  });

  it("count once.", async () => {
    const payer = await workspace.agent();
    const mandateId = await workspace.mandate([
      velocityRule(2, { scope: Scope.AGENT, matchActionTypes: ["pay.once"] }),
    ]);
    const request = { agentId: payer, actionType: "pay.once", requestId: randomUUID() };
    for (let turn = 0; turn < 9; turn++) await workspace.intercept(request, replicaAt(turn));
    expect((await workspace.intercept({ agentId: payer, actionType: "pay.once" })).decision).to.equal(Decision.ALLOW);
    expect((await workspace.intercept({ agentId: payer, actionType: "pay.once" })).decision).to.equal(Decision.BLOCK);
    await workspace.mandates.archiveMandate({ mandateId });
  });
});
