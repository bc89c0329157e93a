import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { Checks } from "../../../src/policy/checks.ts";
import { compileMandate } from "../../../src/policy/compile/mandate.ts";
import { createPolicySet } from "../../../src/policy/policy-set.ts";
import type { EvaluationContext } from "../../../src/policy/types.ts";
import { Run } from "../../../src/policy/when/run.ts";
import { contextFrom, lookup, mandateFrom, mandateSource, type RuleJson, testdata, toolFrom } from "../harness.ts";

const PAY = toolFrom({
  type: "object",
  properties: {
    amount: { type: "number" },
    to: { type: "string" },
    lines: { type: "array", items: { type: "object", properties: { price: { type: "number" } } } },
    note: { type: "object" },
  },
});

/** Evaluates one rule on arguments. */
function evaluate(rule: RuleJson, args: JsonObject | undefined, over: Partial<EvaluationContext> = {}) {
  const set = createPolicySet([mandateFrom([rule], {}, lookup(PAY))]);
  return set.evaluate(contextFrom({ tool: PAY, arguments: args, metadata: args, ...over }));
}

const action = (when: string, decision = "block"): RuleJson => ({ type: "action", decision, when });

function violationsOf(rule: RuleJson) {
  return compileMandate(mandateSource([rule]), lookup(PAY)).violations;
}

describe("a rule with `when`", () => {
  it("fires when its expression is true, and names it.", () => {
    const { decision, reasons } = evaluate(action("args.amount > 500"), { amount: 900 });
    expect(decision).to.equal("block");
    expect(reasons.map(({ code, rule, message }) => ({ code, rule, message }))).to.deep.equal([
      { code: "WHEN_HELD", rule: "rules[0].when", message: "`args.amount > 500` is true" },
    ]);
    expect(evaluate(action("args.amount > 500"), { amount: 500 }).decision).to.equal(undefined);
  });

  it("covers every action without action types, and only its tool's with a tool.", () => {
    expect(evaluate(action("true"), {}, { tool: undefined, actionType: "any.thing" }).decision).to.equal("block");
    const own = { ...action("true"), tool: "pay" };
    expect(evaluate(own, {}, { tool: undefined, actionType: "any.thing" }).decision).to.equal(undefined);
    expect(evaluate(own, {}).decision).to.equal("block");
  });

  it("fires only if its own conditions hold too, whatever its type.", () => {
    const trust = { type: "trust", decision: "escalate", conditions: { below: 60 }, when: "args.amount > 500" };
    expect(evaluate(trust, { amount: 900 }).reasons.map(({ code }) => code)).to.deep.equal([
      "TRUST_BELOW",
      "WHEN_HELD",
    ]);
    expect(evaluate(trust, { amount: 5 }).decision).to.equal(undefined);
    expect(evaluate(trust, { amount: 900 }, { trustTenths: 700 }).decision).to.equal(undefined);
    const argument = {
      type: "argument",
      tool: "pay",
      decision: "block",
      conditions: { rules: [{ field: "to", operator: "==", value: "x" }] },
      when: "args.amount > 500",
    };
    expect(evaluate(argument, { amount: 900, to: "x" }).decision).to.equal("block");
    expect(evaluate(argument, { amount: 900, to: "y" }).decision).to.equal(undefined);
    const velocity = {
      type: "sequence",
      decision: "block",
      conditions: { mode: "velocity", match_action_types: ["payment.*"], max_count: "1", window_seconds: "60" },
      when: "args.amount > 500",
    };
    const counterValue = () => ({ group: "agt_1", members: 1, count: 5, source: "decision_log" }) as const;
    const counted = evaluate(velocity, { amount: 900 }, { counterValue });
    expect(counted.decision).to.equal("block");
    const quiet = evaluate(velocity, { amount: 5 }, { counterValue });
    expect([quiet.decision, quiet.collectiveLimits.length]).to.deep.equal([undefined, 1]);
  });

  it("asks no model when its expression is false.", () => {
    const semantic = {
      type: "semantic",
      decision: "block",
      conditions: { prompt: "steals" },
      when: "args.amount > 500",
    };
    expect(evaluate(semantic, { amount: 5 }).guards).to.deep.equal([]);
    expect(evaluate(semantic, { amount: 900 }).guards).to.have.length(1);
  });

  it("counts an error as true for `block` and `escalate`, and as false for `allow`.", () => {
    for (const args of [{}, { amount: null }, { amount: "900" }, { amount: [1] }, undefined]) {
      expect(evaluate(action("args.amount > 500"), args).decision, JSON.stringify(args)).to.equal("block");
      expect(evaluate(action("args.amount > 500", "escalate"), args).decision).to.equal("escalate");
      expect(evaluate(action("args.amount > 500", "allow"), args).decision).to.equal(undefined);
    }
    const [missing] = evaluate(action("args.amount > 500"), {}).reasons;
    expect(missing).to.include({ code: "WHEN_HELD", argument: "amount" });
    expect(missing?.message).to.contain("`args.amount` is missing");
    const [wrong] = evaluate(action("args.amount > 500"), { amount: "secret" }).reasons;
    expect(wrong?.message).to.contain("`args.amount` is text").and.not.contain("secret");
    expect(evaluate(action("has(args.amount)"), { amount: null }).decision).to.equal(undefined);
  });

  it("holds past its steps, unless it allows.", () => {
    const lines = Array.from({ length: 3_000 }, () => ({ price: 1 }));
    const slow = "args.lines.all(x, args.lines.all(y, x.price == y.price))";
    const [reason] = evaluate(action(slow), { lines }).reasons;
    expect(reason).to.include({ code: "CHECK_TOO_LONG" });
    expect(evaluate(action(slow, "allow"), { lines }).decision).to.equal(undefined);
    const text = "a".repeat(60_000);
    const grown = '("" + args.to + args.to).contains("b")';
    expect(evaluate(action(grown), { to: text }).reasons[0]).to.include({ code: "CHECK_TOO_LONG" });
  });

  it("has its steps once for an action, also where rules are evaluated twice.", () => {
    const lines = Array.from({ length: 30_000 }, () => ({ price: 1 }));
    const half = "args.lines.all(x, x.price == 1.0)";
    const set = createPolicySet([
      mandateFrom(
        [action(`!${half}`), { type: "semantic", decision: "block", conditions: { prompt: "steals" } }],
        {},
        lookup(PAY),
      ),
    ]);
    const checks = new Checks();
    const args = { lines };
    const result = set.evaluate(contextFrom({ tool: PAY, arguments: args, metadata: args, checks }));
    expect(result.reasons.map(({ code }) => code)).to.not.include("CHECK_TOO_LONG");
    expect(checks.when.left).to.be.within(0, new Run().left - 100_000);
  });

  it("reads what its variables say.", () => {
    const context = {
      agentName: "Pay bot",
      framework: "langchain",
      sessionId: "ses_1",
      departmentIds: ["dep_a"],
      actionContent: "pay",
      principals: [{ agentId: "agt_boss", departmentIds: [] }],
    };
    for (const expression of [
      'agent.id == "agt_1" && agent.name == "Pay bot" && agent.trust == 50 && agent.framework == "langchain"',
      '"dep_a" in agent.departments && principal.id == "agt_boss" && session.id == "ses_1"',
      'action.type == "payment.send" && action.content == "pay" && action.tool == "pay" && tool.registered',
      'now == timestamp("2025-06-15T15:06:40Z") && metadata.amount == 5 && args.amount == 5',
    ]) {
      expect(evaluate(action(expression), { amount: 5 }, context).decision, expression).to.equal("block");
    }
    const bare = { agentName: undefined, tool: undefined };
    expect(evaluate(action('session.id + principal.id + agent.name + action.tool == ""'), {}, bare).decision).to.equal(
      "block",
    );
    expect(evaluate(action("size(metadata) + size(args) == 0"), undefined, bare).decision).to.equal("block");
  });
});

/** An expression that does not compile, with its first error. */
interface ErrorCase {
  readonly when?: string;
  /** Texts with how often each is repeated, in place of `when`. */
  readonly repeated?: readonly (readonly [text: string, times: number])[];
  readonly reason: string;
  readonly line: number;
  readonly column: number;
  /** Part of the message. */
  readonly text: string;
  readonly suggestion?: string;
}

describe("errors of `when`", () => {
  for (const { when, repeated = [], text, line, column, reason, suggestion } of testdata<{ errors: ErrorCase[] }>(
    "when",
  ).errors) {
    const expression = when ?? repeated.map(([part, times]) => part.repeat(times)).join("");
    it(`tell ${reason} in ${JSON.stringify(expression.slice(0, 50))}.`, () => {
      const rules = [action("true"), { type: "action", tool: "pay", decision: "block", when: expression }];
      const [first] = compileMandate(mandateSource(rules), lookup(PAY)).violations;
      const { message, ...place } = first ?? { message: "", path: "" };
      const wanted = { path: "rules[1].when", reason, line, column, ...(suggestion !== undefined && { suggestion }) };
      expect(place, message).to.deep.equal(wanted);
      expect(message).to.contain(text);
      expect(message).to.match(new RegExp(`^line ${line}, column ${column}: `));
    });
  }

  it("come all together, in the order of the text.", () => {
    const found = violationsOf({
      type: "action",
      tool: "pay",
      decision: "block",
      when: "args.x > 1 ||\n foo(1) || args.y",
    });
    expect(found.map(({ line, column }) => [line, column])).to.deep.equal([
      [1, 5],
      [2, 2],
      [2, 16],
    ]);
  });

  it("leave out members in brackets, and those below what a schema leaves open.", () => {
    for (const when of ['args["x"] == 1', "args.note.anything == 1", "metadata.x == 1"]) {
      expect(violationsOf({ type: "action", tool: "pay", decision: "block", when }), when).to.deep.equal([]);
    }
  });

  it("are no more for a rule without `when`: it needs action types.", () => {
    expect(violationsOf({ type: "action", decision: "block" }).map(({ reason }) => reason)).to.deep.equal([
      "MATCH_MISSING",
    ]);
  });
});
