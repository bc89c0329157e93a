import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { AgentOrder, AgentStatus } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import { attempt, failureOf, openWorkspace, reasonOf, type TestWorkspace } from "../support/harness.ts";

const PATTERNS = [
  { given: "", accepted: false },
  { given: "   ", accepted: false },
  { given: "a".repeat(257), accepted: false },
  { given: "pay\u0000ment", accepted: false },
  { given: "pay\u007fment", accepted: false },
  { given: "pay*ment", accepted: false },
  { given: "**", accepted: false },
  { given: "*", accepted: true },
  { given: " payment.* ", accepted: true },
  { given: "é".repeat(256), accepted: true },
];

describe("agents", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
  });
  after(() => test.close());

  it("registers an agent as told, active and with the workspace's initial trust.", async () => {
    const { agents } = test;
    const permissions = { allowedActionTypes: [" payment.* "], deniedActionTypes: ["payment.refund"] };
    const told = { name: " Payer ", framework: "langgraph", description: "pays", capabilities: ["read"], permissions };
    const { agent } = await agents.registerAgent(told);
    expect(agent?.agentId).to.match(/^agt_[a-z2-7]{26}$/);
    expect(agent).to.include({ name: "Payer", framework: "langgraph", trustLevel: 50, status: AgentStatus.ACTIVE });
    expect(agent?.permissions?.allowedActionTypes).to.deep.equal(["payment.*"]);
    expect(agent?.permissions?.deniedActionTypes).to.deep.equal(["payment.refund"]);
    expect(agent?.deactivatedAt).to.equal(undefined);
    expect((await agents.getAgent({ agentId: agent?.agentId ?? "" })).agent).to.deep.equal(agent);
  });

  for (const { given, accepted } of PATTERNS) {
    it(`${accepted ? "accepts" : "refuses"} the action type ${JSON.stringify(given.slice(0, 12))} of ${given.length} characters.`, async () => {
      for (const list of ["allowedActionTypes", "deniedActionTypes"] as const) {
        const call = test.agents.registerAgent({ name: "a", permissions: { [list]: ["ok", given] } });
        const outcome = await call.then(() => "accepted").catch((error) => error);
        if (accepted) expect(outcome).to.equal("accepted");
        else expect(outcome.violations[0].field).to.match(/^permissions\.\w+\[1\]$/);
      }
    });
  }

  it("refuses a blank name, control characters and too many patterns, naming the field.", async () => {
    const { agents } = test;
    const many = Array.from({ length: 501 }, (_, index) => `a${index}`);
    const cases = [
      { request: { name: "  " }, field: "name" },
      { request: { name: "a\nb" }, field: "name" },
      { request: { name: "a", framework: "x\u0000" }, field: "framework" },
      { request: { name: "a", description: "x\ud800" }, field: "description" },
      { request: { name: "a", capabilities: ["a*b"] }, field: "capabilities[0]" },
      { request: { name: "a", permissions: { deniedActionTypes: many } }, field: "permissions.denied_action_types" },
    ];
    for (const { request, field } of cases) {
      const failure = await failureOf(agents.registerAgent(request));
      expect(failure.violations[0]?.field).to.equal(field);
    }
  });

  it("deactivates an agent once: again changes nothing and seals nothing.", async () => {
    const { agents } = test;
    const agentId = (await agents.registerAgent({ name: "leaver" })).agent?.agentId ?? "";
    const first = await agents.deactivateAgent({ agentId });
    const { seq } = await test.log.caughtUp();
    const second = await agents.deactivateAgent({ agentId });
    expect(first.agent?.status).to.equal(AgentStatus.DEACTIVATED);
    expect(second.agent).to.deep.equal(first.agent);
    expect((await test.log.caughtUp()).seq).to.equal(seq);
    expect((await attempt(test.log, { agentId, actionType: "x" })).path).to.equal("revoked");
  });

  it("says that an agent it does not know is not found.", async () => {
    const { agents } = test;
    expect(await reasonOf(agents.getAgent({ agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
    expect(await reasonOf(agents.getAgentHistory({ agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
    expect(await reasonOf(agents.deactivateAgent({ agentId: "agt_no" }))).to.equal("AGENT_NOT_FOUND");
  });

  it("keeps agents over a restart exactly as they were.", async () => {
    const { agents } = test;
    const other = await test.replica();
    const here = (await agents.listAgents({ pageSize: 500 })).agents;
    const there = (await other.agents.listAgents({ pageSize: 500 })).agents;
    expect(there).to.deep.equal(here);
  });
});

describe("the list of agents", () => {
  let test: TestWorkspace;
  const ids: string[] = [];
  before(async () => {
    test = await openWorkspace();
    for (let index = 0; index < 7; index++) {
      ids.unshift((await test.agents.registerAgent({ name: `agent ${index}` })).agent?.agentId ?? "");
    }
  });
  after(() => test.close());

  async function pagesOf(request: object): Promise<string[][]> {
    const pages: string[][] = [];
    let pageToken = "";
    do {
      const page = await test.agents.listAgents({ ...request, pageToken });
      pages.push(page.agents.map(({ agentId }) => agentId));
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    return pages;
  }

  it("gives every agent once, newest first, and no token on the last page.", async () => {
    expect(await pagesOf({ pageSize: 3 })).to.deep.equal([ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)]);
    expect(await pagesOf({ pageSize: 7 })).to.deep.equal([ids]);
    expect(await pagesOf({})).to.deep.equal([ids]);
  });

  it("does not repeat or leave out agents when more are registered between pages.", async () => {
    const first = await test.agents.listAgents({ pageSize: 4 });
    const added = (await test.agents.registerAgent({ name: "late" })).agent?.agentId ?? "";
    const rest = await test.agents.listAgents({ pageSize: 10, pageToken: first.nextPageToken ?? "" });
    const seen = [...first.agents, ...rest.agents].map(({ agentId }) => agentId);
    expect(seen).to.deep.equal(ids);
    ids.unshift(added);
  });

  it("filters by status and department.", async () => {
    const { agents, departments } = test;
    const [first = "", second = "", third = ""] = ids;
    const departmentId = (await departments.createDepartment({ name: "ops" })).department?.departmentId ?? "";
    for (const agentId of [first, third]) await departments.addDepartmentMember({ departmentId, agentId });
    await agents.deactivateAgent({ agentId: third });
    await agents.deactivateAgent({ agentId: second });
    expect(await pagesOf({ pageSize: 1, status: AgentStatus.DEACTIVATED })).to.deep.equal([[second], [third]]);
    expect(await pagesOf({ departmentId })).to.deep.equal([[first, third]]);
    expect(await pagesOf({ departmentId, status: AgentStatus.ACTIVE })).to.deep.equal([[first]]);
    expect(await reasonOf(pagesOf({ departmentId: "dep_no" }))).to.equal("DEPARTMENT_NOT_FOUND");
  });

  it("refuses the token of another order, and one that it did not issue.", async () => {
    const { nextPageToken = "" } = await test.agents.listAgents({ pageSize: 1, orderBy: AgentOrder.NAME });
    const ask = (pageToken: string) =>
      test.agents.listAgents({ pageSize: 1, pageToken, orderBy: AgentOrder.LOWEST_TRUST });
    expect(await reasonOf(ask(nextPageToken))).to.equal("INVALID_PAGE_TOKEN");
    const [digest] = JSON.parse(Buffer.from(nextPageToken, "base64url").toString()) as string[];
    const forged = Buffer.from(JSON.stringify([digest, "agt_none"])).toString("base64url");
    const again = test.agents.listAgents({ pageSize: 1, pageToken: forged, orderBy: AgentOrder.NAME });
    expect((await failureOf(again)).violations[0]?.field).to.equal("page_token");
  });

  it("says when each agent last attempted an action, and leaves it unset for one that never did.", async () => {
    const [busy = "", refused = ""] = [await test.agent("busy"), await test.agent("refused", ["read"])];
    await attempt(test.log, { agentId: busy, actionType: "read" });
    const { atMs } = await attempt(test.log, { agentId: busy, actionType: "read" });
    const blocked = await attempt(test.log, { agentId: refused, actionType: "write" });
    expect(blocked.decision).to.equal("block");
    const { agents } = await test.agents.listAgents({});
    const last = new Map(
      agents.map(({ agentId, lastActionAt }) => [agentId, lastActionAt && timestampMs(lastActionAt)]),
    );
    expect(last.get(busy)).to.equal(atMs);
    expect(last.get(refused)).to.equal(blocked.atMs);
    expect(last.get(ids[0] ?? "")).to.equal(undefined);
    const { agent } = await test.agents.getAgent({ agentId: busy });
    expect(agent?.lastActionAt && timestampMs(agent.lastActionAt)).to.equal(atMs);
  });
});

describe("an ordered list of agents", () => {
  let test: TestWorkspace;
  /** Oldest first. */
  const made: { agentId: string; name: string; trust: number }[] = [];
  before(async () => {
    test = await openWorkspace();
    const names = ["b", "A", "ä", "a", "Ab", "z".repeat(200), "ab", "a".repeat(200), "é 1", "É 2"];
    for (const name of names) made.push({ agentId: await test.agent(name, ["read"]), name, trust: 50 });
    for (const [index, agent] of made.entries()) {
      for (let tried = 0; tried < index % 4; tried++) {
        await attempt(test.log, { agentId: agent.agentId, actionType: index % 3 === 0 ? "read" : "write" });
      }
      agent.trust = (await test.log.caughtUp()).agents.get(agent.agentId)?.trustTenths ?? 0;
    }
  });
  after(() => test.close());

  async function idsOf(request: object): Promise<string[]> {
    const ids: string[] = [];
    let pageToken = "";
    do {
      const page = await test.agents.listAgents({ ...request, pageToken });
      ids.push(...page.agents.map(({ agentId }) => agentId));
      pageToken = page.nextPageToken ?? "";
    } while (pageToken !== "");
    return ids;
  }

  type Made = (typeof made)[number];
  const byId = (a: Made, b: Made): number => (a.agentId < b.agentId ? -1 : 1);
  const byName = (a: Made, b: Made): number => {
    const [left, right] = [a.name.toLowerCase(), b.name.toLowerCase()];
    return left === right ? byId(a, b) : left < right ? -1 : 1;
  };
  const ORDERS: readonly [AgentOrder, (a: Made, b: Made) => number][] = [
    [AgentOrder.NEWEST, (a, b) => made.indexOf(b) - made.indexOf(a)],
    [AgentOrder.NAME, byName],
    [AgentOrder.LOWEST_TRUST, (a, b) => a.trust - b.trust || byId(a, b)],
    [AgentOrder.HIGHEST_TRUST, (a, b) => b.trust - a.trust || byId(a, b)],
  ];

  it("gives every agent whose name begins as asked for, once and in order, whatever the size of the page.", async () => {
    expect(new Set(made.map(({ trust }) => trust)).size).to.be.greaterThan(3);
    for (const [orderBy, compare] of ORDERS) {
      for (const q of ["", "a", "AB", " ab ", "É", "none"]) {
        const wanted = made
          .filter(({ name }) => name.toLowerCase().startsWith(q.trim().toLowerCase()))
          .sort(compare)
          .map(({ agentId }) => agentId);
        for (const pageSize of [1, 3, 100]) expect(await idsOf({ orderBy, q, pageSize })).to.deep.equal(wanted);
      }
    }
  });
});
