import { fromJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { attempt, openWorkspace, type TestWorkspace, withWorkspace } from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { drawFrom, publishRandomly, randomMandates, randomPlan, registerTool } from "./plans.ts";
import { backtest, draftOf } from "./run-backtest.ts";

const above = (value: number, decision: Decision) => ({
  tool: "send_payment",
  decision,
  conditions: { rules: [{ field: "amount", operator: ">", value: fromJson(ValueSchema, value) }] },
});

describe("a backtest of the drafts alone", () => {
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    it(`finds what two backtests against the record differ in (${seed}).`, async () => {
      const below = seededBelow(seed);
      await withWorkspace({}, async (workspace) => {
        await registerTool(workspace);
        const agents = await workspace.newAgents(3);
        await publishRandomly(workspace, below);
        const recorded = new Map<string, string>();
        for (const step of randomPlan(below, 60)) {
          workspace.clock.advance(below(4) * 100_000);
          const reply = await workspace.intercept({ agentId: drawFrom(below, agents), ...step });
          recorded.set(reply.decisionId, Decision[reply.decision].toLowerCase());
        }
        // Rules that came into force after the record, which the drafts do not change.
        await workspace.mandate([...(randomMandates(below, workspace.clock.now())[0]?.rules ?? [])]);
        const drafts = randomMandates(below, workspace.clock.now()).map(({ rules, ...more }, index) =>
          draftOf(`draft ${index}`, rules, more),
        );
        const decided = async (query: Parameters<typeof backtest>[1]): Promise<ReadonlyMap<string, string>> => {
          const { changes } = await backtest(workspace, query);
          return new Map([...recorded, ...changes.map(({ decisionId, now }) => [decisionId, now] as const)]);
        };
        const [without, within] = [await decided({}), await decided({ drafts })];
        const wanted = [...recorded.keys()]
          .filter((id) => without.get(id) !== within.get(id))
          .map((id) => [id, without.get(id), within.get(id)]);
        const { changes, report } = await backtest(workspace, { drafts, onlyDrafts: true });
        expect(changes.map(({ decisionId, was, now }) => [decisionId, was, now])).to.deep.equal(wanted);
        expect(report.stricter + report.looser).to.equal(wanted.length);
        expect(report.replayed).to.equal(recorded.size);
        expect((await backtest(workspace, { onlyDrafts: true })).changes).to.deep.equal([]);
      });
    });
  }

  describe("over payments", () => {
    let test: TestWorkspace;
    let mandateId: string;
    const ids: string[] = [];
    before(async () => {
      test = await openWorkspace();
      await test.tools.registerTool({
        name: "send_payment",
        inputSchema: { type: "object", properties: { amount: { type: "number" }, to: { type: "string" } } },
      });
      const agentId = await test.agent("payer");
      for (const [index, amount] of [100, 600, 2_000, 9_000].entries()) {
        if (index === 2) test.clock.advance(86_400_000);
        const metadata = { arguments: { amount, to: "x".repeat(1_000) } };
        const action = { agentId, actionType: "payment.send", tool: "send_payment", metadata };
        ids.push((await attempt(test.log, action)).decisionId);
      }
      // Everything above 500 asks by now, which is no work of the draft.
      const { mandate } = await test.mandates.createMandate({ name: "large", rules: [above(500, Decision.ESCALATE)] });
      mandateId = mandate?.mandateId ?? "";
    });
    after(() => test.close());

    it("leaves out what other rules changed meanwhile, and tells agent, action and the argument that fired.", async () => {
      const draft = draftOf("large", [above(500, Decision.ESCALATE), above(5_000, Decision.BLOCK)], {
        replacesMandateId: mandateId,
      });
      expect((await backtest(test, { drafts: [draft] })).report.stricter).to.equal(3);
      const { report, changes } = await backtest(test, { drafts: [draft], onlyDrafts: true });
      expect([report.stricter, report.looser, report.unchanged]).to.deep.equal([1, 0, 3]);
      expect(changes).to.have.length(1);
      expect(changes[0]).to.deep.include({
        decisionId: ids[3],
        agentName: "payer",
        actionType: "payment.send",
        tool: "send_payment",
        was: "escalate",
        now: "block",
        fired: { path: "amount", value: 9_000 },
      });
    });

    it("names for a looser decision the argument that fired before.", async () => {
      const draft = draftOf("large", [above(1_000, Decision.ESCALATE)], { replacesMandateId: mandateId });
      const { changes } = await backtest(test, { drafts: [draft], onlyDrafts: true });
      expect(changes.map(({ was, now, fired }) => [was, now, fired])).to.deep.equal([
        ["escalate", "allow", { path: "amount", value: 600 }],
      ]);
      const archived = await backtest(test, { archives: [mandateId], onlyDrafts: true });
      expect(archived.report.looserBy).to.deep.equal({ allow: 3, escalate: 0 });
    });

    it("cuts a long text, and counts by day.", async () => {
      const rule = {
        tool: "send_payment",
        decision: Decision.BLOCK,
        conditions: { rules: [{ field: "to", operator: "contains", value: fromJson(ValueSchema, "xx") }] },
      };
      const { changes, report } = await backtest(test, { drafts: [draftOf("texts", [rule])], onlyDrafts: true });
      expect(changes.map(({ fired }) => fired)).to.deep.equal(Array(4).fill({ path: "to", value: "x".repeat(200) }));
      expect(report.days.map(({ replayed, stricterBy }) => [replayed, stricterBy.block])).to.deep.equal([
        [2, 2],
        [2, 2],
      ]);
      expect(report.days.map(({ atMs }) => atMs % 86_400_000)).to.deep.equal([0, 0]);
    });

    it("makes room for others when it is done, more often than there are states.", async () => {
      const drafts = [draftOf("more", [above(1, Decision.BLOCK)])];
      const all = await Promise.all(Array.from({ length: 8 }, () => backtest(test, { drafts, onlyDrafts: true })));
      expect(all.map(({ report }) => report.stricter)).to.deep.equal(Array(8).fill(4));
    });
  });
});
