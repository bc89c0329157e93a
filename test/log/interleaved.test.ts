import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { InterceptRequest } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { idFromUuid } from "../../src/store/ids.ts";
import { decideOn } from "../support/decide-on.ts";
import { actionRule, openWorkspace, type TestWorkspace, velocityRule } from "../support/harness.ts";
import { assertIntact, decisionsOf, readLog } from "./stored-log.ts";
import { openWatchedLog } from "./watched-log.ts";

describe("a batch that another replica overtakes", () => {
  let workspace: TestWorkspace;
  let agentId: string;
  beforeEach(async () => {
    workspace = await openWorkspace();
    agentId = await workspace.agent();
  });
  afterEach(async () => {
    assertIntact(await readLog(workspace.url));
    await workspace.close();
  });

  /** A log of its own on the workspace's database, overtaken right before an append as if another replica were quicker. */
  const overtaken = async (before: (count: number) => Promise<unknown>): Promise<WorkspaceLog> =>
    (await openWatchedLog(workspace, { before })).log;

  function act(log: WorkspaceLog, actionType: string, requestId?: string, by = agentId, escalationId?: string) {
    const request = { agentId: by, actionType, actionContent: "", requestId, escalationId } as InterceptRequest;
    return decideOn(log, actionFrom(request, workspace.adminCaller));
  }

  const pay = (by = agentId) => workspace.intercept({ agentId: by, actionType: "pay" });

  it("is decided again under the lock, against what the other appended, with trust and counts to match.", async () => {
    await workspace.mandate([velocityRule(3)]);
    const log = await overtaken(async (count) => void (count === 1 && (await pay())));
    const sealed = await Promise.all([act(log, "pay"), act(log, "pay"), act(log, "pay")]);
    const decisions = decisionsOf(await readLog(workspace.url));
    expect(decisions.map(({ authorisation }) => authorisation.collective_limits?.[0]?.count)).to.deep.equal([
      1, 2, 3, 4,
    ]);
    expect(sealed.map(({ decision }) => decision)).to.deep.equal(["allow", "allow", "block"]);
    const trust = (await log.caughtUp()).agents.get(agentId)?.trustTenths;
    expect(trust).to.equal(500 + 2 * 3 - 20);
  });

  const changes: Readonly<Record<string, { change: () => Promise<unknown>; want: [string, string] }>> = {
    "a deactivation": {
      change: () => workspace.agents.deactivateAgent({ agentId }),
      want: ["block", "revoked"],
    },
    "a new mandate": {
      change: () => workspace.mandate([actionRule(Decision.ESCALATE, "pay")]),
      want: ["escalate", "policy"],
    },
    "a new limit over the past": {
      change: () => workspace.mandate([velocityRule(3)]),
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
    const colleague = await workspace.agent();
    const departmentId = await workspace.department(colleague);
    await workspace.mandate([velocityRule(3, { scope: Scope.DEPARTMENT })]);
    for (let count = 0; count < 3; count++) await pay(colleague);
    const log = await overtaken(async (count) => {
      if (count === 2) await workspace.departments.addDepartmentMember({ departmentId, agentId });
    });
    expect((await act(log, "pay")).decision).to.equal("allow");
    expect((await act(log, "pay")).decision).to.equal("block");
    await workspace.departments.removeDepartmentMember({ departmentId, agentId });
    expect((await act(log, "pay")).decision).to.equal("allow");
  });

  it("by the use of the approval it presents does not use it again.", async () => {
    await workspace.mandate([actionRule(Decision.ESCALATE, "pay")]);
    const { escalationId = "" } = await pay();
    await workspace.resolve(escalationId);
    const log = await overtaken(async (count) => {
      if (count === 1) await workspace.intercept({ agentId, actionType: "pay", escalationId });
    });
    const late = await Promise.all([act(log, "pay", undefined, agentId, escalationId), act(log, "pay")]);
    expect(late.map(({ decision }) => decision)).to.deep.equal(["escalate", "escalate"]);
  });

  it("again and again by retries of its own requests answers each with its first decision.", async () => {
    const ids = Array.from({ length: 8 }, () => randomUUID());
    const log = await overtaken(async (count) => {
      const requestId = ids[Math.floor((count - 1) / 2)] as string;
      await workspace.intercept({ agentId, actionType: "pay", requestId });
    });
    const sealed = await Promise.all(ids.map((requestId) => act(log, "pay", requestId)));
    expect(sealed.map(({ decisionId }) => decisionId)).to.deep.equal(ids.map((id) => idFromUuid("dec", id)));
    const decisions = decisionsOf(await readLog(workspace.url));
    expect(decisions).to.have.length(ids.length);
    for (const { decisionId, seq, trustTenths } of sealed) {
      const body = decisions.find((decision) => decision.decision_id === decisionId);
      expect({ seq, before: trustTenths / 10 }).to.deep.equal({ seq: body?.seq, before: body?.trust.before });
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
