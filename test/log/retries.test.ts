import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { InterceptResponse } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { reasonOf } from "../support/workspace.ts";
import { actionRule, openStage, type Party, type Stage, seededBelow, settled, velocityRule } from "./harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";

/** A reply without how long it took. */
const replyOf = ({ latencyMs: _, ...reply }: InterceptResponse) => reply;

describe("retried requests", () => {
  let stage: Stage;
  let agentId: string;
  before(async () => {
    stage = await openStage(3);
    agentId = await stage.agent();
    await stage.mandate([velocityRule(1, { matchActionTypes: ["pay.limited"] }, Decision.ESCALATE)]);
    await stage.mandate([actionRule(Decision.BLOCK, "delete*")]);
  });
  after(() => stage.close());

  const partyAt = (index: number): Party => stage.parties[index % stage.parties.length] as Party;

  it("get the first decision unchanged, on every replica and whatever happened since.", async () => {
    for (const actionType of ["read", "delete.all", "pay.limited"]) {
      const request = { agentId, actionType, actionContent: "once", requestId: randomUUID(), metadata: { a: 1 } };
      const first = await stage.intercept(request);
      for (const party of stage.parties) {
        await stage.intercept({ agentId, actionType }, party);
        expect(replyOf(await stage.intercept(request, party))).to.deep.equal(replyOf(first));
      }
    }
  });

  const others = {
    agent: async () => ({ agentId: await stage.agent() }),
    "action type": async () => ({ actionType: "write" }),
    "action content": async () => ({ actionContent: "other" }),
    metadata: async () => ({ metadata: { a: 2 } }),
    "no metadata": async () => ({ metadata: undefined }),
    tool: async () => ({ tool: "hammer" }),
    principal: async () => ({ onBehalfOf: await stage.agent() }),
    session: async () => ({ sessionId: "ses_other" }),
    grant: async () => ({ grantId: "grt_other" }),
    "intent contract": async () => ({ intentContractId: "itc_other" }),
  };
  for (const [what, change] of Object.entries(others)) {
    it(`are refused when they come with another ${what}.`, async () => {
      const request = { agentId, actionType: "read", actionContent: "x", metadata: { a: 1 }, requestId: randomUUID() };
      await stage.intercept(request);
      const changed = { ...request, ...(await change()) };
      for (const party of stage.parties) {
        expect(await reasonOf(stage.intercept(changed as never, party))).to.equal("REQUEST_ID_REUSED");
      }
    });
  }

  it("with a blank tool are the same request.", async () => {
    const request = { agentId, actionType: "read", tool: " ", requestId: randomUUID() };
    const first = await stage.intercept(request);
    expect(replyOf(await stage.intercept(request))).to.deep.equal(replyOf(first));
  });

  it("sent 50 times at once to three replicas make one entry and get equal replies.", async () => {
    for (const actionType of ["read", "pay.limited"]) {
      const request = { agentId, actionType, requestId: randomUUID() };
      const calls = Array.from({ length: 50 }, (_, index) => stage.intercept(request, partyAt(index)));
      const replies = (await Promise.all(calls)).map(replyOf);
      for (const reply of replies) expect(reply).to.deep.equal(replies[0]);
      const made = decisionsOf(await readLog(stage.url)).filter((body) => body.decision_id === replies[0]?.decisionId);
      expect(made).to.have.length(1);
    }
  });

  it("in a storm, every request sent to every replica at once, all get the first decision.", async () => {
    const below = seededBelow(7);
    const requests = Array.from({ length: 300 }, () => ({ agentId, actionType: "pay", requestId: randomUUID() }));
    const calls = stage.parties.flatMap((party) => {
      const shuffled = requests
        .map((request) => ({ request, order: below(1_000_000) }))
        .sort((a, b) => a.order - b.order)
        .map(({ request }) => request);
      return shuffled.map(async (request) => ({ request, reply: await stage.intercept(request, party) }));
    });
    const { values, errors } = await settled(calls);
    expect(errors).to.deep.equal([]);
    const byRequest = Map.groupBy(values, ({ request }) => request.requestId);
    for (const group of byRequest.values()) {
      for (const { reply } of group)
        expect(replyOf(reply)).to.deep.equal(replyOf(group[0]?.reply as InterceptResponse));
    }
    assertIntact(await readLog(stage.url));
  });

  it("count once.", async () => {
    const payer = await stage.agent();
    const mandateId = await stage.mandate([velocityRule(2, { scope: Scope.AGENT, matchActionTypes: ["pay.once"] })]);
    const request = { agentId: payer, actionType: "pay.once", requestId: randomUUID() };
    for (let turn = 0; turn < 9; turn++) await stage.intercept(request, partyAt(turn));
    expect((await stage.intercept({ agentId: payer, actionType: "pay.once" })).decision).to.equal(Decision.ALLOW);
    expect((await stage.intercept({ agentId: payer, actionType: "pay.once" })).decision).to.equal(Decision.BLOCK);
    await stage.party.services.mandates.archiveMandate({ mandateId });
  });
});
