import { expect } from "chai";
import { Resolution } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { WorkspaceLog } from "../../src/log/writer.ts";
import { loadState } from "../../src/state/load.ts";
import {
  actionRule,
  attempt,
  fieldsOf,
  openWorkspace,
  PUBLIC_URL,
  reasonOf,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { drawFrom, type PlanStep, publishRandomly, randomMandates, randomPlan, registerTool } from "./plans.ts";
import { backtest, draftOf, runBacktest } from "./run-backtest.ts";

/** Makes a history: actions of some agents, whose departments change, with some approvals used. */
async function live(
  workspace: TestWorkspace,
  below: (bound: number) => number,
  agents: readonly string[],
): Promise<number[]> {
  const departments = [
    await workspace.department(...agents.slice(0, 2)),
    await workspace.department(...agents.slice(1)),
  ];
  const times: number[] = [];
  for (const step of randomPlan(below, 60)) {
    workspace.clock.advance(below(4) * 100_000);
    const agentId = drawFrom(below, agents);
    const reply = await workspace.intercept({ agentId, ...step });
    times.push(workspace.clock.now());
    if (reply.escalationId !== undefined && below(2) === 0) {
      await workspace
        .resolve(reply.escalationId, below(3) === 0 ? Resolution.REJECTED : Resolution.APPROVED)
        .catch(() => undefined);
      await workspace.intercept({ agentId, ...step, escalationId: reply.escalationId });
    }
    if (below(12) === 0) {
      const departmentId = drawFrom(below, departments);
      const change = drawFrom(below, [
        workspace.departments.addDepartmentMember,
        workspace.departments.removeDepartmentMember,
      ]);
      await change({ departmentId, agentId }).catch(() => undefined);
    }
  }
  return times;
}

describe("a backtest", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    it(`without drafts changes nothing, over the whole history and parts of it (${seed}).`, async () => {
      const below = seededBelow(seed);
      await withWorkspace({}, async (workspace) => {
        const agents = await workspace.newAgents(3);
        await publishRandomly(workspace, below);
        const times = await live(workspace, below, agents);
        for (const [sinceMs, untilMs] of [
          [undefined, undefined],
          [times[20], undefined],
          [times[10], times[40]],
        ]) {
          const { report, changes } = await backtest(workspace, { sinceMs, untilMs });
          expect(changes).to.deep.equal([]);
          expect(report).to.include({ stricter: 0, looser: 0, semanticDecisions: 0, deterministicShare: 1 });
          expect(report.unchanged).to.equal(report.replayed);
          expect(report.replayed).to.be.greaterThan(20);
          expect(report.agents.reduce((sum, { replayed }) => sum + replayed, 0)).to.equal(report.replayed);
        }
      });
    });

    it(`decides as the same actions do live under its rules, at the same times (${seed}).`, async () => {
      const below = seededBelow(100 + seed);
      await withWorkspace({}, async (recorded) => {
        await publishRandomly(recorded, below);
        recorded.clock.advance(3_600_000);
        const agents = await recorded.newAgents(3);
        const taken: { step: PlanStep; agent: number; atMs: number; decisionId: string; was: Decision }[] = [];
        for (const step of randomPlan(below, 80)) {
          recorded.clock.advance(below(4) * 100_000);
          const agent = below(agents.length);
          const { decisionId, decision } = await recorded.intercept({ agentId: agents[agent] ?? "", ...step });
          const { body } = await recorded.receipt(decisionId);
          taken.push({ step, agent, decisionId, was: decision, atMs: Date.parse(body.at) });
        }
        const mandates = randomMandates(below, recorded.clock.now());
        const archives = (await recorded.mandates.listMandates({})).mandates.map(({ mandateId }) => mandateId);
        const drafts = mandates.map(({ rules, ...more }, index) => draftOf(`draft ${index}`, rules, more));
        const { changes, report } = await backtest(recorded, { archives, drafts });
        expect(report.replayed).to.equal(taken.length);
        const changed = new Map(changes.map(({ decisionId, now }) => [decisionId, now]));
        await withWorkspace({}, async (fresh) => {
          await registerTool(fresh);
          for (const { rules, ...more } of mandates) await fresh.mandate(rules, more);
          const others = await fresh.newAgents(3);
          let now = 0;
          const clock = { now: () => now, observe: () => undefined };
          const log = new WorkspaceLog(fresh.database, await loadState(fresh.database.pool, "default"), clock);
          for (const { step, agent, atMs, decisionId, was } of taken) {
            now = atMs;
            const { decision } = await attempt(log, { agentId: others[agent] ?? "", ...step });
            expect(changed.get(decisionId) ?? Decision[was].toLowerCase(), JSON.stringify(step)).to.equal(decision);
          }
        });
      });
    });
  }

  for (const seed of [1, 2, 3]) {
    it(`without drafts changes nothing where authority, tool policies and settings decide too (${seed}).`, async () => {
      const below = seededBelow(200 + seed);
      await withWorkspace({}, async (workspace) => {
        const { admin, agents, authority, clock, workspaceId } = workspace;
        const [lender = "", actor = "", other = ""] = await workspace.newAgents(3);
        await workspace.department(lender, other);
        await publishRandomly(workspace, below);
        const scopes = [
          { scope: Scope.AGENT, agentId: lender },
          { scope: Scope.AGENT, agentId: actor },
        ];
        for (const scope of scopes) await workspace.mandate([actionRule(Decision.ESCALATE, "mail.*")], scope);
        await admin.updateWorkspace({
          workspaceId,
          defaultDecision: drawFrom(below, [Decision.ALLOW, Decision.ESCALATE, Decision.BLOCK]),
          unknownTools: drawFrom(below, [Decision.ALLOW, Decision.ESCALATE, Decision.BLOCK]),
          maxPendingEscalationsPerAgent: 10,
        });
        const policy = { server: "s", decision: drawFrom(below, [Decision.ESCALATE, Decision.BLOCK]) };
        await authority.createMcpToolPolicy({ ...policy, tool: "drop*" });
        const { grant } = await authority.createGrant({
          grantorAgentId: lender,
          granteeAgentId: actor,
          actionTypes: ["pay*", "file.*"],
          maxUses: 12n,
        });
        const { token } = await authority.createFederationToken({
          agentId: other,
          audience: PUBLIC_URL,
          allowedActionTypes: ["*"],
          maxTrustLevel: 42,
          ttlSeconds: 86_400n,
        });
        const tools = [{ tool: "unknown" }, { tool: "s.drop_all" }];
        for (const step of randomPlan(below, 60)) {
          clock.advance(below(4) * 100_000);
          const borrowed = {
            agentId: actor,
            onBehalfOf: lender,
            ...(below(2) > 0 && { grantId: grant?.grantId ?? "" }),
          };
          const by = drawFrom(below, [{ agentId: lender }, { agentId: actor }, { agentId: other }, borrowed]);
          const action = { ...step, ...by, ...(below(4) === 0 && drawFrom(below, tools)) };
          const key = by.agentId === other && below(2) === 0 ? token : undefined;
          const reply = await workspace.enforcement.intercept(action, key);
          if (reply.escalationId === undefined || below(2) > 0) continue;
          await workspace.resolve(reply.escalationId).catch(() => undefined);
          await workspace.enforcement.intercept({ ...action, escalationId: reply.escalationId }, key);
        }
        await agents.deactivateAgent({ agentId: other });
        for (let count = 0; count < 3; count++) await workspace.intercept({ agentId: other, actionType: "pay" });
        const { changes, report } = await backtest(workspace);
        expect(changes).to.deep.equal([]);
        expect(report.unchanged).to.equal(report.replayed);
        expect(report.replayed).to.be.above(60);
      });
    });
  }

  it("leaves out what a semantic rule covers, and counts it.", () =>
    withWorkspace({}, async (test) => {
      const agentId = await test.agent("talker");
      const semantic = (prompt: string) => ({
        type: RuleType.SEMANTIC,
        decision: Decision.BLOCK,
        conditions: { prompt, matchActionTypes: ["say"] },
      });
      await test.mandate([semantic("gossip")], { name: "talk" });
      for (const actionType of ["say", "say", "pay"]) await test.intercept({ agentId, actionType, actionContent: "x" });
      const same = await backtest(test);
      const counts = { replayed: 3, stricter: 0, looser: 0, unchanged: 1, semanticDecisions: 2 };
      expect(same.report).to.include(counts);
      expect(same.report.deterministicShare).to.be.closeTo(1 / 3, 1e-9);
      const drafts = [draftOf("no talk", [actionRule(Decision.BLOCK, "say"), actionRule(Decision.BLOCK, "pay")])];
      const { report, changes } = await backtest(test, { drafts });
      expect(report).to.include({ ...counts, stricter: 1, unchanged: 0 });
      expect(changes.length).to.equal(1);
      // A draft that asks a model takes what it covers out as well.
      const asking = await backtest(test, { drafts: [draftOf("ask", [semantic("insults")])] });
      expect(asking.report).to.include(counts);
    }));

  it("takes the recorded time, trust and departments for an expression.", () =>
    withWorkspace({}, async (test) => {
      const agentId = await test.agent("payer");
      const departmentId = await test.department();
      const ids: string[] = [];
      const times: number[] = [];
      const trusts: number[] = [];
      for (let step = 0; step < 6; step++) {
        if (step === 2) await test.departments.addDepartmentMember({ departmentId, agentId });
        if (step === 4) await test.departments.removeDepartmentMember({ departmentId, agentId });
        test.clock.advance(3_600_000);
        const metadata = { arguments: { amount: step * 100 } };
        const { decisionId } = await test.intercept({ agentId, actionType: "pay", metadata });
        const { body } = await test.receipt(decisionId);
        ids.push(decisionId);
        times.push(Date.parse(body.at));
        trusts.push(body.trust.before);
      }
      const changedBy = async (when: string): Promise<number[]> => {
        const drafts = [draftOf("expression", [{ type: RuleType.ACTION, decision: Decision.BLOCK, when }])];
        const { changes } = await backtest(test, { drafts });
        return changes.map(({ decisionId }) => ids.indexOf(decisionId)).sort();
      };
      const at = (step: number): string => `timestamp("${new Date(times[step] ?? 0).toISOString()}")`;
      expect(await changedBy(`now >= ${at(3)}`)).to.deep.equal([3, 4, 5]);
      expect(await changedBy(`now > ${at(3)}`)).to.deep.equal([4, 5]);
      expect(await changedBy(`now == ${at(1)} || now + duration("1h") < ${at(2)}`)).to.deep.equal([0, 1]);
      expect(await changedBy("args.amount > 300")).to.deep.equal([4, 5]);
      expect(await changedBy("args.rush")).to.deep.equal([0, 1, 2, 3, 4, 5]);
      expect(await changedBy(`"${departmentId}" in agent.departments`)).to.deep.equal([2, 3]);
      const trust = trusts[3] ?? 0;
      expect(await changedBy(`agent.trust > ${trust} && args.amount <= 300`)).to.deep.equal(
        [0, 1, 2, 3].filter((step) => (trusts[step] ?? 0) > trust),
      );
    }));

  describe("of one workspace", () => {
    let test: TestWorkspace;
    let payer: string;
    let reader: string;
    let mandateId: string;
    before(async () => {
      test = await openWorkspace();
      [payer, reader] = [await test.agent("payer"), await test.agent("reader")];
      mandateId = await test.mandate([actionRule(Decision.ESCALATE, "pay")], { name: "payments" });
      for (let count = 0; count < 3; count++) await test.intercept({ agentId: reader, actionType: "read" });
      const asked = await test.intercept({ agentId: payer, actionType: "pay", actionContent: "a" });
      await test.resolve(asked.escalationId ?? "");
      await test.intercept({
        agentId: payer,
        actionType: "pay",
        actionContent: "a",
        escalationId: asked.escalationId ?? "",
      });
      await test.intercept({ agentId: payer, actionType: "pay", actionContent: "b" });
    });
    after(() => test.close());

    it("counts stricter and looser decisions by what they would be, with a row for every agent.", async () => {
      const stricter = draftOf("payments", [actionRule(Decision.BLOCK, "pay")], { replacesMandateId: mandateId });
      const { report } = await backtest(test, { drafts: [stricter] });
      expect(report).to.deep.include({
        replayed: 6,
        unchanged: 3,
        stricter: 3,
        looser: 0,
        stricterBy: { block: 3, escalate: 0 },
      });
      expect(report.byPeople.counts).to.deep.equal({ approved: 2, rejected: 0, pending: 1 });
      expect(report.agents.map(({ name, replayed, stricter }) => [name, replayed, stricter])).to.deep.equal([
        ["payer", 3, 3],
        ["reader", 3, 0],
      ]);
      expect(report.agents[0]?.decisionIds).to.have.length(3);
      const { report: looser, changes } = await backtest(test, { archives: [mandateId] });
      expect(looser).to.deep.include({ looser: 2, looserBy: { allow: 2, escalate: 0 }, stricter: 0 });
      expect(changes.map(({ was, now }) => [was, now])).to.deep.equal([
        ["escalate", "allow"],
        ["escalate", "allow"],
      ]);
    });

    it("names the decisions behind what people had said of stricter ones, the first 20 of each in the order of the log.", () =>
      withWorkspace({}, async (recorded) => {
        const agentId = await recorded.agent();
        const id = await recorded.mandate([actionRule(Decision.ESCALATE, "pay")], { name: "payments" });
        const want = { approved: [] as string[], rejected: [] as string[], pending: [] as string[] };
        const ask = (actionContent: string, escalationId?: string) =>
          recorded.intercept({ agentId, actionType: "pay", actionContent, ...(escalationId && { escalationId }) });
        for (let count = 0; count < 22; count++) {
          const asked = await ask(`pending ${count}`);
          want.pending.push(asked.decisionId);
        }
        const rejected = await ask("rejected");
        await recorded.resolve(rejected.escalationId ?? "", Resolution.REJECTED);
        want.rejected.push(rejected.decisionId);
        // The approval of a later action is used before that of an earlier one.
        const [first, second] = [await ask("first"), await ask("second")];
        for (const { escalationId = "" } of [first, second]) await recorded.resolve(escalationId);
        const used = [await ask("second", second.escalationId), await ask("first", first.escalationId)];
        want.approved.push(...[first, second, ...used].map(({ decisionId }) => decisionId));
        const stricter = draftOf("payments", [actionRule(Decision.BLOCK, "pay")], { replacesMandateId: id });
        const { report } = await backtest(recorded, { drafts: [stricter] });
        expect(report.byPeople.counts).to.deep.equal({ approved: 4, rejected: 1, pending: 22 });
        expect(report.byPeople.decisionIds).to.deep.equal({ ...want, pending: want.pending.slice(0, 20) });
      }));

    it("rebuilds counts and trust under the rules that are tried.", async () => {
      const limit = draftOf("limit", [velocityRule(2, { matchActionTypes: ["read"] })]);
      const { changes } = await backtest(test, { drafts: [limit] });
      expect(changes).to.have.length(1);
      const [change] = changes;
      expect(change).to.include({ agentId: reader, was: "allow", now: "block" });
      expect(change?.reasons[0]).to.include({ code: "LIMIT_EXCEEDED", mandateId: "drafts[0]" });
    });

    it("reports one agent if asked, and refuses what is not there.", async () => {
      const stricter = draftOf("block all", [actionRule(Decision.BLOCK, "*")]);
      const { report } = await backtest(test, { drafts: [stricter], agentId: reader });
      expect([report.replayed, report.stricter, report.agents.length]).to.deep.equal([3, 3, 1]);
      expect(await reasonOf(backtest(test, { agentId: "agt_x" }))).to.equal("AGENT_NOT_FOUND");
      expect(await reasonOf(backtest(test, { archives: ["mnd_x"] }))).to.equal("MANDATE_NOT_FOUND");
      expect(await reasonOf(backtest(test, { sinceMs: 5, untilMs: 5 }))).to.equal("INVALID_FIELD");
      const empty = await backtest(test, { untilMs: 5 });
      expect(empty.report).to.include({ replayed: 0, deterministicShare: 1, fromSeq: 0, toSeq: 0 });
    });

    it("frees the names of archived mandates, and refuses drafts that contradict each other, by field.", async () => {
      const blocking = [actionRule(Decision.BLOCK, "pay")];
      const renamed = await backtest(test, { archives: [mandateId], drafts: [draftOf("payments", blocking)] });
      expect(renamed.report.stricterBy).to.deep.equal({ block: 3, escalate: 0 });
      const replacing = draftOf("payments", blocking, { replacesMandateId: mandateId });
      const fields = (query: Parameters<typeof backtest>[1]) => fieldsOf(backtest(test, query));
      expect(await fields({ archives: [mandateId], drafts: [replacing] })).to.deep.equal([
        "drafts[0].replaces_mandate_id",
      ]);
      expect(await fields({ drafts: [replacing, replacing] })).to.deep.equal(["drafts[1].replaces_mandate_id"]);
      expect(await fields({ drafts: [draftOf("payments", blocking)] })).to.deep.equal(["drafts[0].name"]);
      expect(await fields({ archives: [mandateId, "mnd_x"] })).to.deep.equal(["archives[1]"]);
    });

    it("stops when its caller leaves, in the middle too, and makes room for others.", async () => {
      const drafts = [draftOf("block all", [actionRule(Decision.BLOCK, "*")])];
      for (const after of [0, 1, 3]) {
        const leaving = new AbortController();
        const { signal } = leaving;
        if (after === 0) leaving.abort();
        let changes = 0;
        let isReported = false;
        for await (const { kind } of runBacktest(test, { drafts, listsChanges: true, signal })) {
          if (kind === "change" && ++changes === after) leaving.abort();
          isReported ||= kind === "report";
        }
        expect([changes, isReported]).to.deep.equal([after, false]);
        // A caller who no longer reads.
        for await (const { kind } of runBacktest(test, { drafts })) if (kind === "progress") break;
      }
      expect((await backtest(test)).report.replayed).to.equal(6);
    });

    it("applies no bound on pending escalations to what would newly be escalated.", () =>
      withWorkspace({}, async (recorded) => {
        const { admin, workspaceId } = recorded;
        await admin.updateWorkspace({ workspaceId, maxPendingEscalationsPerAgent: 2 });
        const agentId = await recorded.agent();
        for (const actionContent of ["a", "b", "c", "d"])
          await recorded.intercept({ agentId, actionType: "pay", actionContent });
        const drafts = [draftOf("ask", [actionRule(Decision.ESCALATE, "pay")])];
        const { report } = await backtest(recorded, { drafts });
        expect(report.stricterBy).to.deep.equal({ block: 0, escalate: 4 });
      }));
  });
});
