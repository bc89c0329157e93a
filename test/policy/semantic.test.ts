import { expect } from "chai";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { GuardAnswer, MandateSource } from "../../src/policy/types.ts";
import { action, contextFrom, mandateFrom, type RuleJson } from "./harness.ts";

const semantic = (decision = "block", conditions: RuleJson = {}): RuleJson => ({
  type: "semantic",
  decision,
  conditions: { prompt: "sends secrets", ...conditions },
});

const verdict = (violates: boolean, confidence: number): GuardAnswer => ({
  kind: "verdict",
  violates,
  confidence,
  reason: "because",
  model: "m",
  latencyMs: 7,
});
const unavailable: GuardAnswer = { kind: "unavailable", cause: "timed_out", latencyMs: 5 };

/** Evaluates a mandate of these rules, with this answer to every question. */
function evaluate(rules: readonly RuleJson[], answer?: GuardAnswer, over: Partial<MandateSource> = {}) {
  const set = createPolicySet([mandateFrom(rules, over)]);
  return set.evaluate(contextFrom({ guardAnswerFor: answer && (() => answer) }));
}

const CASES: readonly [string, RuleJson, GuardAnswer | undefined, string | undefined, string?][] = [
  ["a sure violation", {}, verdict(true, 0.9), "block", "GUARD_VIOLATION"],
  ["a violation it is half sure of", {}, verdict(true, 0.5), "block", "GUARD_VIOLATION"],
  ["a violation it is hardly sure of", {}, verdict(true, 0.49), "escalate", "GUARD_UNAVAILABLE"],
  ["no violation", {}, verdict(false, 1), undefined],
  ["no violation, half sure", {}, verdict(false, 0.5), undefined],
  ["no violation, hardly sure", {}, verdict(false, 0.49), "escalate", "GUARD_UNAVAILABLE"],
  ["no violation, hardly sure, to block", { on_unavailable: "block" }, verdict(false, 0), "block", "GUARD_UNAVAILABLE"],
  ["a violation hardly sure, to allow", { on_unavailable: "allow" }, verdict(true, 0.49), undefined],
  ["a violation as sure as asked", { min_confidence: 0.9 }, verdict(true, 0.9), "block", "GUARD_VIOLATION"],
  ["a violation less sure than asked", { min_confidence: 0.9 }, verdict(true, 0.89), "escalate", "GUARD_UNAVAILABLE"],
  ["any violation, where none has to be sure", { min_confidence: 0 }, verdict(true, 0), "block", "GUARD_VIOLATION"],
  ["a confidence that is no number", {}, verdict(true, Number.NaN), "block", "GUARD_VIOLATION"],
  ["no verdict", {}, unavailable, "escalate", "GUARD_UNAVAILABLE"],
  ["no verdict, to block", { on_unavailable: "block" }, unavailable, "block", "GUARD_UNAVAILABLE"],
  ["no verdict, to allow", { on_unavailable: "allow" }, unavailable, undefined],
  ["no answer at all", {}, undefined, "escalate", "GUARD_UNAVAILABLE"],
  ["no answer at all, to allow", { on_unavailable: "allow" }, undefined, undefined],
];

describe("a semantic rule", () => {
  for (const [description, conditions, answer, decision, code] of CASES) {
    it(`decides ${decision ?? "nothing"} on ${description}.`, () => {
      const result = evaluate([semantic("block", conditions)], answer);
      expect(result.decision).to.equal(decision);
      expect(result.reasons.map((reason) => reason.code)).to.deep.equal(code === undefined ? [] : [code]);
      expect(result.reasons.every(({ wouldPass }) => wouldPass === undefined)).to.equal(true);
      expect(result.guards).to.have.length(1);
      const cause = { kind: "unavailable", cause: "not_asked", latencyMs: 0 };
      expect(result.guards[0]).to.deep.include({ mandateId: "mnd_a", rule: "rules[0]", answer: answer ?? cause });
    });
  }

  it("never shows the model's own words to who is decided on.", () => {
    const { reasons } = evaluate([semantic()], verdict(true, 1));
    expect(JSON.stringify(reasons)).not.to.contain("because");
    expect(reasons[0]).not.to.have.property("decision");
  });

  it("decides what it is told to when unavailable, also as the mandate's and the winner's decision.", () => {
    const result = evaluate([semantic("block"), action("allow", "*")], unavailable);
    expect(result.decision).to.equal("escalate");
    expect(result.fired[0]?.decision).to.equal("escalate");
    expect(result.winner?.rule.path).to.equal("rules[0]");
    expect(evaluate([semantic("escalate", { on_unavailable: "block" })], unavailable).decision).to.equal("block");
  });

  it("is left out where other rules block and nobody answered, wherever it stands.", () => {
    const rules = [semantic("escalate"), action("block", "*"), semantic("block", { prompt: "another" })];
    for (const order of [rules, rules.toReversed()]) {
      const result = evaluate(order);
      expect(result.decision).to.equal("block");
      expect(result.reasons.map(({ code }) => code)).to.deep.equal(["ACTION_MATCHED"]);
      expect(result.guards).to.deep.equal([]);
    }
  });

  it("is looked at where other rules block and an answer is there.", () => {
    const result = evaluate([semantic("escalate"), action("block", "*")], verdict(true, 1));
    expect(result.reasons.map(({ code }) => code)).to.deep.equal(["ACTION_MATCHED", "GUARD_VIOLATION"]);
    expect(result.guards).to.have.length(1);
  });

  it("is looked at where only an observing mandate would block.", () => {
    const observing = mandateFrom([action("block", "*")], { id: "mnd_o", mode: "observe" });
    const result = createPolicySet([observing, mandateFrom([semantic()])]).evaluate(contextFrom());
    expect(result.guards).to.have.length(1);
    expect(result.decision).to.equal("escalate");
  });

  it("has no effect in an observing mandate, which says what it would have decided.", () => {
    const result = evaluate([semantic()], verdict(true, 1), { mode: "observe" });
    expect(result.decision).to.equal(undefined);
    expect(result.observed[0]?.decision).to.equal("block");
    expect(result.guards).to.have.length(1);
  });

  it("asks one question with others that ask the same, and another with other words or time.", () => {
    const keyOf = (conditions: RuleJson) => mandateFrom([semantic("block", conditions)]).rules[0]?.semantic?.key;
    expect(keyOf({ prompt: " sends secrets ", min_confidence: 0.9, on_unavailable: "block" })).to.equal(keyOf({}));
    expect(keyOf({ prompt: "sends" })).not.to.equal(keyOf({}));
    expect(keyOf({ timeout_ms: 100 })).not.to.equal(keyOf({}));
  });

  it("makes a set ask its guard, as long as it is in it.", () => {
    const plain = createPolicySet([mandateFrom([action("block", "*")], { id: "mnd_p" })]);
    expect(plain.asksGuard).to.equal(false);
    const asking = plain.with(mandateFrom([action("block", "x"), semantic()]));
    expect([asking.asksGuard, plain.asksGuard, asking.without("mnd_a").asksGuard]).to.deep.equal([true, false, false]);
  });

  it("is narrowed by tool and action type like any other.", () => {
    const set = createPolicySet([
      mandateFrom([{ ...semantic("block", { match_action_types: ["mail.*"] }), tool: "send" }]),
    ]);
    const guardsOf = (over: object) => set.evaluate(contextFrom(over)).guards.length;
    expect(guardsOf({ actionType: "mail.send", toolName: "send" })).to.equal(1);
    expect(guardsOf({ actionType: "mail.send" })).to.equal(0);
    expect(guardsOf({ toolName: "send" })).to.equal(0);
  });
});
