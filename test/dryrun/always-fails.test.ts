import { fromJson } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import { expect } from "chai";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { doInTurns } from "../../src/async/work.ts";
import { alwaysFailing } from "../../src/dryrun/always-fails.ts";
import { lookup, mandateFrom, ruleFrom, testdata, toolFrom, velocity } from "../policy/harness.ts";
import { openWorkspace, type TestWorkspace } from "../support/harness.ts";

const PAY = toolFrom({
  type: "object",
  properties: {
    amount: { type: "number" },
    to: { type: "string" },
    lines: { type: "array", items: { type: "object", properties: { price: { type: "number" } } } },
  },
});

const warningsOf = (when: string, tool?: string) => {
  const rule = { type: "action", decision: "block", when, ...(tool !== undefined && { tool }) };
  const { rules } = mandateFrom([rule], {}, lookup(PAY));
  return doInTurns(alwaysFailing([{ prefix: "", rules }], lookup(PAY)));
};

describe("a `when` without a result", () => {
  it("is warned of if no sample argument gives one.", async () => {
    for (const [when, tool] of [
      ['args.amount.contains("x")', "pay"],
      ["args.amount + args.to > 5", "pay"],
      ["int(args.to) > args.amount.size()", "pay"],
    ] as const) {
      const [warning] = await warningsOf(when, tool);
      expect(warning, when).to.include({ path: "rules[0].when", reason: "WHEN_ALWAYS_FAILS", line: 1, column: 1 });
    }
  });

  it("is not warned of if one gives a result, or if it reads no argument.", async () => {
    for (const when of [
      "args.amount > 500",
      'args.to == "a" || args.amount > 5',
      "has(args.to)",
      "agent.trust > 5",
      'in_list(args.to, "names")',
      'in_list(args.to, "domains") && args.amount > 5',
      'host(args.to) == "example.com"',
      'now - timestamp(args.to) > duration("24h")',
      "args.lines[3].price > 5",
      "args.lines[3].price > args.lines[1].price",
    ]) {
      expect(await warningsOf(when, "pay"), when).to.deep.equal([]);
    }
    expect(await warningsOf("args.anything > 5")).to.deep.equal([]);
  });

  it("is published with its warnings.", async () => {
    const test = await openWorkspace();
    try {
      await test.tools.registerTool({
        name: "pay",
        inputSchema: { type: "object", properties: { amount: { type: "number" }, to: { type: "string" } } },
      });
      const when = 'args.to == "Evil" && args.amount + args.to > 5';
      const rules = [{ type: RuleType.ACTION, tool: "pay", decision: Decision.BLOCK, when }];
      const { mandate, warnings } = await test.mandates.createMandate({ name: "never", rules });
      expect(mandate?.rules[0]?.when).to.equal(when);
      expect(warnings.map(({ reason }) => reason)).to.have.members(["WHEN_EXACT_TEXT"]);
      const other = await test.mandates.createMandate({
        name: "fails",
        rules: [{ type: RuleType.ACTION, tool: "pay", decision: Decision.BLOCK, when: "args.amount + args.to > 5" }],
      });
      expect(other.warnings.map(({ path, reason }) => [path, reason])).to.deep.equal([
        ["rules[0].when", "WHEN_ALWAYS_FAILS"],
      ]);
    } finally {
      await test.close();
    }
  });
});

/** An expression that compiles and may not do what was meant. */
interface WarningCase {
  readonly when: string;
  readonly decision: string;
  readonly type: string;
  readonly reason: string;
  readonly line: number;
  readonly column: number;
  /** Part of the message. */
  readonly text: string;
}

describe("warnings about `when`, by rule, line and column", () => {
  let test: TestWorkspace;
  before(async () => {
    test = await openWorkspace();
    await test.admin.updateWorkspace({
      workspaceId: test.workspaceId,
      approvalIgnores: fromJson(ListValueSchema, ["trace"]),
    });
    const text = { type: "string" };
    const line = { type: "object", properties: { kind: text } };
    const lines = { type: "array", items: line };
    const properties = { amount: { type: "number" }, to: text, note: text, trace: text, lines };
    await test.tools.registerTool({ name: "pay", inputSchema: { type: "object", properties } });
  });
  after(() => test?.close());

  for (const { when, decision, type, text, reason, line, column } of testdata<{ warnings: WarningCase[] }>("when")
    .warnings) {
    it(`tell ${reason} in ${JSON.stringify(when)}.`, async () => {
      const quiet = ruleFrom({ type: "action", decision: "block", when: "true" });
      const rule = type === "sequence" ? velocity(1, {}) : { type };
      const doubtful = ruleFrom({ ...rule, decision, tool: "pay", when });
      const { valid, warnings } = await test.mandates.compileMandate({ rules: [quiet, doubtful] });
      expect(valid).to.equal(true);
      const [warning, ...more] = warnings;
      expect(warning).to.include({ path: "rules[1].when", reason, line, column });
      expect(warning?.message).to.contain(text);
      expect(more.map((each) => each.reason)).to.deep.equal([]);
    });
  }
});
