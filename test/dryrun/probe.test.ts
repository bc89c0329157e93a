import { fromJson, type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { ConditionSeen, type Probe, TracedConditionSchema } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { ListKind } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { MandateMode, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  actionRule,
  callerWith,
  fieldsOf,
  openWorkspace,
  reasonOf,
  type TestWorkspace,
  velocityRule,
  withWorkspace,
} from "../support/harness.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { publishRandomly, randomPlan } from "./plans.ts";

const value = (json: JsonValue) => fromJson(ValueSchema, json);
const condition = (field: string, operator: string, expected: JsonValue, more = {}) => ({
  field,
  operator,
  value: value(expected),
  ...more,
});

describe("a probe", () => {
  let test: TestWorkspace;
  let agentId: string;
  before(async () => {
    test = await openWorkspace();
    agentId = await test.agent();
    await test.tools.registerTool({
      name: "pay_invoice",
      inputSchema: {
        type: "object",
        properties: {
          amount: { type: "number", minimum: 0 },
          count: { type: "integer" },
          currency: { type: "string", enum: ["EUR", "USD"] },
          to: { type: "string" },
        },
      },
    });
    await test.mandate(
      [
        {
          tool: "pay_invoice",
          decision: Decision.BLOCK,
          conditions: { rules: [condition("amount", ">", 500, { currency: "EUR" }), condition("to", "!=", "ACME")] },
        },
        { tool: "pay_invoice", decision: Decision.ESCALATE, conditions: { rules: [condition("count", ">=", 3)] } },
        velocityRule(5),
        { type: RuleType.TRUST, decision: Decision.BLOCK, conditions: { below: 10 } },
      ],
      { name: "payments" },
    );
    await test.mandate([actionRule(Decision.BLOCK, "drop")], { name: "no drops" });
  });
  after(() => test.close());

  async function probe(args: JsonObject, more = {}): Promise<Probe> {
    const metadata = { arguments: args };
    const reply = await test.dryRuns.probe({ agentId, actionType: "pay", tool: "pay_invoice", metadata, ...more });
    if (reply.probe === undefined) throw new Error("no probe");
    return reply.probe;
  }

  const conditionsOf = ({ trace }: Probe, rule: number) =>
    trace[rule]?.conditions.map((each) => toJson(TracedConditionSchema, each));

  it("shows what every rule in force made of the action, those that cover it first.", async () => {
    const shown = await probe({ amount: 750, currency: "EUR", to: "EVIL", count: 1 });
    expect(shown.decision).to.equal(Decision.BLOCK);
    expect(shown.policyName).to.equal("payments");
    const rules = shown.trace.map(({ mandateName, rule, covers, fires }) => [mandateName, rule, covers, fires]);
    expect(rules).to.deep.equal([
      ["payments", "rules[0]", true, true],
      ["payments", "rules[1]", true, false],
      ["payments", "rules[2]", true, false],
      ["payments", "rules[3]", true, false],
      ["no drops", "rules[0]", false, false],
    ]);
    expect(conditionsOf(shown, 0)).to.deep.equal([
      {
        condition: "rules[0].conditions.rules[0]",
        path: "amount",
        operator: ">",
        expected: 500,
        seen: "CONDITION_SEEN_PRESENT",
        value: 750,
        holds: true,
      },
      {
        condition: "rules[0].conditions.rules[1]",
        path: "to",
        operator: "!=",
        expected: "ACME",
        seen: "CONDITION_SEEN_PRESENT",
        value: "EVIL",
        holds: true,
      },
    ]);
    expect(conditionsOf(shown, 2)).to.deep.equal([
      {
        condition: "rules[2]",
        path: "count",
        operator: "above",
        expected: 5,
        seen: "CONDITION_SEEN_PRESENT",
        value: 1,
      },
    ]);
    expect(shown.collectiveLimits.map(({ remaining }) => Number(remaining))).to.deep.equal([4]);
  });

  it("tells what an expression read, and what it came to.", async () => {
    const when = "args.amount > 500 && args.rush && agent.trust < 70";
    const drafts = [{ name: "expression", rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, when }] }];
    const shown = await probe({ amount: 750 }, { drafts });
    const traced = shown.trace.find(({ mandateName }) => mandateName === "expression");
    expect(traced).to.include({ covers: true, fires: true });
    expect(traced?.conditions.map((each) => toJson(TracedConditionSchema, each))).to.deep.equal([
      {
        condition: "rules[0].when",
        path: "when",
        operator: "is_true",
        expected: when,
        seen: "CONDITION_SEEN_MISSING",
        holds: true,
      },
      ...(
        [
          ["args.amount", "PRESENT", 750],
          ["args.rush", "MISSING", undefined],
          ["agent.trust", "PRESENT", 50],
        ] as const
      ).map(([path, seen, value]) => ({
        condition: "rules[0].when",
        path,
        operator: "reads",
        seen: `CONDITION_SEEN_${seen}`,
        ...(value !== undefined && { value }),
        holds: true,
      })),
    ]);
    expect(shown.reasons[0]).to.include({ code: "WHEN_HELD", argument: "rush" });
  });

  it("looks into the workspace's lists for an expression, as the decision does.", async () => {
    await test.lists.putList({ name: "payees", kind: ListKind.TEXT, values: ["ACME"] });
    const when = 'in_list(args.to, "payees")';
    const drafts = [{ name: "listed", rules: [{ type: RuleType.ACTION, decision: Decision.BLOCK, when }] }];
    for (const [to, holds] of [
      ["acme", true],
      ["other", false],
    ] as const) {
      const shown = await probe({ to }, { drafts });
      const [whole] = shown.trace.find(({ mandateName }) => mandateName === "listed")?.conditions ?? [];
      expect(whole?.value && toJson(ValueSchema, whole.value)).to.equal(holds);
      expect(whole).to.include({ path: "when", seen: ConditionSeen.PRESENT, holds });
    }
  });

  it("tells how each condition saw its argument.", async () => {
    const seen = async (args: JsonObject) => (await probe(args)).trace[0]?.conditions[0];
    for (const [args, want] of [
      [{ amount: 750, currency: "EUR" }, ConditionSeen.PRESENT],
      [{ currency: "EUR" }, ConditionSeen.MISSING],
      [{ amount: "750", currency: "EUR" }, ConditionSeen.WRONG_TYPE],
      [{ amount: 750, currency: "USD" }, ConditionSeen.OTHER_CURRENCY],
      [{ amount: 750 }, ConditionSeen.OTHER_CURRENCY],
    ] as const) {
      const found = await seen(args);
      expect([found?.seen, found?.holds], JSON.stringify(args)).to.deep.equal([want, true]);
    }
  });

  it("shows the source of a fact that decided, where the arguments and the metadata both tell it.", async () => {
    const rule = {
      type: RuleType.METADATA,
      decision: Decision.BLOCK,
      conditions: { rules: [condition("risk", ">", 50)] },
    };
    const drafts = [{ name: "risks", rules: [rule] }];
    for (const metadata of [
      { risk: 60, arguments: { risk: 1 } },
      { risk: 1, arguments: { risk: 60 } },
    ]) {
      const { probe: found } = await test.dryRuns.probe({ agentId, actionType: "look", metadata, drafts });
      expect(found?.decision).to.equal(Decision.BLOCK);
      const [traced] = found?.trace.find(({ mandateName }) => mandateName === "risks")?.conditions ?? [];
      expect(traced?.value && toJson(ValueSchema, traced.value)).to.equal(60);
    }
  });

  it("sees a list or an object in place of a text as one of a wrong type, also without a schema, and names the text.", async () => {
    const rule = {
      type: RuleType.METADATA,
      decision: Decision.BLOCK,
      conditions: { rules: [condition("country", "!=", "ＦＲ"), condition("tags", "not_contains", "checked")] },
    };
    const drafts = [{ name: "countries", rules: [rule] }];
    for (const [country, tags, seen] of [
      ["DE", ["new"], [ConditionSeen.PRESENT, ConditionSeen.PRESENT]],
      [["FR"], ["new"], [ConditionSeen.WRONG_TYPE, ConditionSeen.PRESENT]],
      [{ code: "FR" }, [["checked"]], [ConditionSeen.WRONG_TYPE, ConditionSeen.WRONG_TYPE]],
    ] as const) {
      const metadata = { arguments: { country, tags } } as unknown as JsonObject;
      const { probe: found } = await test.dryRuns.probe({ agentId, actionType: "look", metadata, drafts });
      const conditions = found?.trace.find(({ mandateName }) => mandateName === "countries")?.conditions;
      expect(found?.decision).to.equal(Decision.BLOCK);
      expect(conditions?.map((each) => [each.seen, each.holds])).to.deep.equal(seen.map((each) => [each, true]));
      const nearest = found?.nearestAllow.map(({ argument, to }) => [argument, to && toJson(ValueSchema, to)]);
      expect(nearest).to.deep.equal([
        ["country", "ＦＲ"],
        ["tags", "checked"],
      ]);
    }
  });

  it("names the smallest changes of one argument that are allowed.", async () => {
    const nearest = (shown: Probe) =>
      shown.nearestAllow.map(({ argument, from, to }) => [
        argument,
        from && toJson(ValueSchema, from),
        to && toJson(ValueSchema, to),
      ]);
    const shown = await probe({ amount: 750, currency: "EUR", to: "EVIL", count: 1 });
    expect(nearest(shown)).to.deep.equal([
      ["amount", 750, 500],
      ["to", "EVIL", "ACME"],
    ]);
    expect(nearest(await probe({ amount: 1, currency: "EUR", to: "ACME", count: 3 }))).to.deep.equal([["count", 3, 2]]);
    expect(nearest(await probe({ amount: 1, currency: "EUR", to: "ACME", count: 0 }))).to.deep.equal([]);
    expect(nearest(await probe({ amount: 750, currency: "EUR", to: "EVIL", count: 3 }))).to.deep.equal([]);
  });

  it("tries drafts, and shows earlier steps that refuse.", async () => {
    const drafts = [{ name: "stop", rules: [actionRule(Decision.BLOCK, "pay")] }];
    const shown = await probe({ amount: 1, currency: "EUR", to: "ACME", count: 0 }, { drafts });
    expect([shown.policyName, shown.trace[0]?.mandateId]).to.deep.equal(["stop", "drafts[0]"]);
    const refused = await probe({ amount: 1 }, { sessionId: "ses_x" });
    expect(refused.reasons[0]?.code).to.equal("SESSION_UNKNOWN");
    expect(refused.trace).to.have.length(5);
  });

  it("is for admins, operators and auditors; drafts for those who may publish.", async () => {
    const as = (role: Role, more = {}) =>
      test.dryRuns.probe({ agentId, actionType: "read", ...more }, callerWith(test.adminCaller, role));
    expect((await as(Role.AUDITOR)).probe?.decision).to.equal(Decision.ALLOW);
    expect(await reasonOf(as(Role.AGENT))).to.equal("ROLE_NOT_ALLOWED");
    const drafts = [{ name: "d", rules: [actionRule(Decision.BLOCK, "x")] }];
    expect(await reasonOf(as(Role.AUDITOR, { drafts }))).to.equal("ROLE_NOT_ALLOWED");
    expect(await fieldsOf(test.dryRuns.probe({ agentId, actionType: "" }))).to.deep.equal(["action_type"]);
  });

  for (const seed of [1, 2, 3, 4, 5, 6]) {
    it(`fires what the decision fires, and every change it names is allowed (${seed}).`, async () => {
      const below = seededBelow(seed);
      await withWorkspace({}, async (workspace) => {
        const id = await workspace.agent();
        await publishRandomly(workspace, below);
        for (const step of randomPlan(below, 25)) {
          const { probe: shown } = await workspace.dryRuns.probe({ agentId: id, ...step });
          const allowed = await Promise.all(
            (shown?.nearestAllow ?? []).map(async ({ argument, to }) => {
              const args = { ...(step.metadata?.arguments as JsonObject), [argument]: to && toJson(ValueSchema, to) };
              const changed = { ...step, metadata: { arguments: args as JsonObject } };
              return (await workspace.dryRuns.probe({ agentId: id, ...changed })).probe?.decision;
            }),
          );
          expect(allowed.every((decision) => decision === Decision.ALLOW)).to.equal(true);
          const reply = await workspace.intercept({ agentId: id, ...step });
          const { body } = await workspace.receipt(reply.decisionId);
          const fired = new Set(
            shown?.trace
              .filter(({ fires, mode }) => fires && mode === MandateMode.ENFORCE)
              .map(({ mandateId }) => mandateId),
          );
          expect(shown?.decision).to.equal(reply.decision);
          expect([...fired].sort()).to.deep.equal(body.mandates.map(({ mandate_id }) => mandate_id));
        }
      });
    });
  }
});
