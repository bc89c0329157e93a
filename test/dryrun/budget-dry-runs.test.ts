import type { JsonObject } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

const NUMBER = { type: "number" };
const TEXT = { type: "string" };

describe("dry runs under budgets", () => {
  let test: TestWorkspace;
  let agentId = "";
  beforeEach(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    const properties = { amount: NUMBER, fee: NUMBER, whole: { type: "integer" }, currency: TEXT };
    await test.tools.registerTool({ name: "transfer", inputSchema: { type: "object", properties } });
  });
  afterEach(() => test.close());

  const budget = (fields: readonly string[] = ["amount"], conditions: object = {}) => ({
    type: RuleType.SEQUENCE,
    decision: Decision.BLOCK,
    conditions: {
      mode: SequenceMode.BUDGET,
      sums: fields.map((field) => ({ tool: "transfer", field })),
      currency: "EUR",
      maxTotal: 100,
      windowSeconds: 3_600n,
      ...conditions,
    },
  });
  const call = (args: JsonObject) => ({
    actionType: "transfer",
    tool: "transfer",
    metadata: { arguments: { currency: "EUR", ...args } },
  });

  it("let a preflight's steps use up the budget one after the other, and leave it as it was.", async () => {
    await test.mandate([budget()]);
    const steps = [60, 31.8, 40, 8.2].map((amount) => call({ amount }));
    const plan = async () => (await test.dryRuns.preflight({ agentId, steps })).preflight;
    for (const preflight of [await plan(), await plan()]) {
      const { ALLOW, BLOCK } = Decision;
      expect(preflight?.steps.map(({ decision }) => decision)).to.deep.equal([ALLOW, ALLOW, BLOCK, ALLOW]);
      const left = preflight?.steps.map(({ collectiveLimits: [limit] }) => limit?.budget?.remaining);
      expect(left).to.deep.equal([40, 8.2, 0, 0]);
      const at = preflight?.at === undefined ? 0 : timestampMs(preflight.at);
      const refused = preflight?.steps[2]?.reasons[0];
      expect(refused).to.include({ code: "BUDGET_EXCEEDED", remaining: 8.2, over: 31.8 });
      expect(refused?.resetsAt && timestampMs(refused.resetsAt)).to.equal(at + 3_600_000);
      expect(refused?.wouldPass).to.contain("amount <= 8.20 EUR; 40 EUR from ");
    }
  });

  it("let a preflight's steps count where outcomes say what counts.", async () => {
    const mode = { mode: SequenceMode.VELOCITY, matchActionTypes: ["transfer"], maxCount: 1n, windowSeconds: 60n };
    const rule = (countOutcomes: OutcomeStatus[]) => ({
      type: RuleType.SEQUENCE,
      decision: Decision.BLOCK,
      conditions: { ...mode, countDecisions: [Decision.ALLOW], countOutcomes },
    });
    const drafts = (status: OutcomeStatus) => [{ name: "count", rules: [rule([status])] }];
    const steps = [call({}), call({})];
    const decisions = async (status: OutcomeStatus) => {
      const { preflight } = await test.dryRuns.preflight({ agentId, steps, drafts: drafts(status) });
      return preflight?.steps.map(({ decision }) => decision);
    };
    expect(await decisions(OutcomeStatus.PENDING)).to.deep.equal([Decision.ALLOW, Decision.BLOCK]);
    expect(await decisions(OutcomeStatus.SUCCEEDED)).to.deep.equal([Decision.ALLOW, Decision.ALLOW]);
  });

  const nearest = async (args: JsonObject) => {
    const { probe } = await test.dryRuns.probe({ agentId, ...call(args) });
    return probe?.nearestAllow.map(({ argument, to }) => [argument, to?.kind.value]);
  };

  it("let a probe find the largest amount that still fits.", async () => {
    await test.mandate([budget()]);
    await test.intercept({ agentId, ...call({ amount: 91.8 }) });
    expect(await nearest({ amount: 40 })).to.deep.equal([["amount", 8.2]]);
    expect(await nearest({ amount: 5 })).to.deep.equal([]);
  });

  it("let a probe reduce one of several amounts by what the others leave, and whole numbers to whole ones.", async () => {
    await test.mandate([budget(["amount", "fee"])]);
    expect(await nearest({ amount: 99.75, fee: 5.5 })).to.deep.equal([
      ["amount", 94.5],
      ["fee", 0.25],
    ]);
    await test.mandate([budget(["whole"], { maxTotal: 7.5 })]);
    expect(await nearest({ amount: 0, fee: 0, whole: 9 })).to.deep.equal([["whole", 7]]);
  });

  it("let a probe find nothing where nothing fits.", async () => {
    await test.mandate([budget()]);
    await test.intercept({ agentId, ...call({ amount: 100 }) });
    expect(await nearest({ amount: 40 })).to.deep.equal([["amount", 0]]);
    await test.mandate([budget(["amount"], { currency: "USD" })]);
    expect(await nearest({ amount: 40 })).to.deep.equal([]);
  });

  it("trace a budget with its total, and say what it was compared with.", async () => {
    await test.mandate([budget()]);
    await test.intercept({ agentId, ...call({ amount: 91.8 }) });
    const { probe } = await test.dryRuns.probe({ agentId, ...call({ amount: 40 }) });
    const [condition] = probe?.trace[0]?.conditions ?? [];
    expect(condition).to.include({ path: "total", operator: "above", holds: true });
    expect([condition?.expected?.kind.value, condition?.value?.kind.value]).to.deep.equal([100, 131.8]);
    expect(probe?.collectiveLimits[0]?.budget).to.include({ total: 131.8, remaining: 0 });
    expect(probe?.collectiveLimits[0]?.resetsAt).not.to.equal(undefined);
  });
});
