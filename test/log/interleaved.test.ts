import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import type { WorkspaceLog } from "../../src/log/workspace-log.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { actionRule, openStage, type Stage, velocityRule } from "./harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";
import { openWatchedLog } from "./watched-log.ts";

describe("a batch that another replica overtakes", () => {
  let stage: Stage;
  let agentId: string;
  beforeEach(async () => {
    stage = await openStage();
    agentId = await stage.agent();
  });
  afterEach(async () => {
    assertIntact(await readLog(stage.url));
    await stage.close();
  });

  /** A log of its own on the stage's database, overtaken right before an append as if another replica were quicker. */
  const overtaken = async (before: (count: number) => Promise<unknown>): Promise<WorkspaceLog> =>
    (await openWatchedLog(stage.party, { before })).log;

  function act(log: WorkspaceLog, actionType: string, requestId?: string, by = agentId, escalationId?: string) {
    const request = { agentId: by, actionType, actionContent: "", requestId, escalationId } as InterceptRequest;
    return log.decide(actionFrom(request, stage.workspace.adminCaller), () => false);
  }

  const pay = (by = agentId) => stage.intercept({ agentId: by, actionType: "pay" });

  for (const times of [1, 2, 3]) {
    it(`${times} times is decided against what the other appended, with trust and counts to match.`, async () => {
      await stage.mandate([velocityRule(times + 2)]);
      let overtakes = 0;
      const log = await overtaken(async () => {
        if (overtakes++ < times) await pay();
      });
      const sealed = await Promise.all([act(log, "pay"), act(log, "pay"), act(log, "pay")]);
      const others = Math.min(times, 2);
      const decisions = decisionsOf(await readLog(stage.url));
      expect(decisions.map(({ authorisation }) => authorisation.collective_limits[0]?.count)).to.deep.equal(
        Array.from({ length: others + 3 }, (_, index) => index + 1),
      );
      const allowed = sealed.filter(({ decision }) => decision === "allow").length;
      expect(allowed).to.equal(Math.min(3, times + 2 - others));
      const trust = (await log.caughtUp()).agents.get(agentId)?.trustTenths;
      expect(trust).to.equal(500 + 2 * (others + allowed) - 20 * (3 - allowed));
    });
  }

  const changes: Readonly<Record<string, { change: () => Promise<unknown>; want: [string, string] }>> = {
    "a deactivation": {
      change: () => stage.party.services.agents.deactivateAgent({ agentId }),
      want: ["block", "revoked"],
    },
    "a new mandate": {
      change: () => stage.mandate([actionRule(Decision.ESCALATE, "pay")]),
      want: ["escalate", "policy"],
    },
    "a new limit over the past": {
      change: () => stage.mandate([velocityRule(3)]),
      want: ["block", "policy"],
    },
  };
  for (const [what, { change, want }] of Object.entries(changes)) {
    it(`by ${what} obeys it.`, async () => {
      for (let count = 0; count < 3; count++) await pay();
      const log = await overtaken(async (count) => void (count === 1 && (await change())));
      const { decision, path } = await act(log, "pay");
      expect([decision, path]).to.deep.equal(want);
    });
  }

  it("by a move into a department counts with its new colleagues.", async () => {
    const colleague = await stage.agent();
    const departmentId = await stage.department(colleague);
    await stage.mandate([velocityRule(3, { scope: Scope.DEPARTMENT })]);
    for (let count = 0; count < 3; count++) await pay(colleague);
    const log = await overtaken(async (count) => {
      if (count === 2) await stage.party.services.departments.addDepartmentMember({ departmentId, agentId });
    });
    expect((await act(log, "pay")).decision).to.equal("allow");
    expect((await act(log, "pay")).decision).to.equal("block");
    await stage.party.services.departments.removeDepartmentMember({ departmentId, agentId });
    expect((await act(log, "pay")).decision).to.equal("allow");
  });

  it("by the use of the approval it presents does not use it again.", async () => {
    await stage.mandate([actionRule(Decision.ESCALATE, "pay")]);
    const { escalationId = "" } = await pay();
    await stage.resolve(escalationId);
    const log = await overtaken(async (count) => {
      if (count === 1) await stage.intercept({ agentId, actionType: "pay", escalationId });
    });
    const late = await Promise.all([act(log, "pay", undefined, agentId, escalationId), act(log, "pay")]);
    expect(late.map(({ decision }) => decision)).to.deep.equal(["escalate", "escalate"]);
  });

  it("again and again by retries of its own requests answers each with its first decision.", async () => {
    const ids = Array.from({ length: 8 }, () => randomUUID());
    const log = await overtaken(async (count) => {
      const requestId = ids[Math.floor((count - 1) / 2)] as string;
      await stage.intercept({ agentId, actionType: "pay", requestId });
    });
    const sealed = await Promise.all(ids.map((requestId) => act(log, "pay", requestId)));
    expect(sealed.map(({ decisionId }) => decisionId)).to.deep.equal(ids.map((id) => idFromUuid("dec", id)));
    const decisions = decisionsOf(await readLog(stage.url));
    expect(decisions).to.have.length(ids.length);
    for (const { decisionId, seq, trustBeforeTenths } of sealed) {
      const body = decisions.find((decision) => decision.decision_id === decisionId);
      expect({ seq, before: trustBeforeTenths / 10 }).to.deep.equal({ seq: body?.seq, before: body?.trust.before });
    }
  });

  it("gives two retries of one request in the same batch one decision.", async () => {
    const requestId = randomUUID();
    const log = await overtaken(async () => void (await pay()));
    const [first, second, third] = await Promise.all([
      act(log, "pay", requestId),
      act(log, "pay"),
      act(log, "pay", requestId),
    ]);
    expect(third).to.deep.include({ decisionId: first?.decisionId, seq: first?.seq });
    expect(second?.decisionId).to.not.equal(first?.decisionId);
  });
});
