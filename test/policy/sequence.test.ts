import { expect } from "chai";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { CounterReading, CounterSpec } from "../../src/policy/types.ts";
import { contextFrom, mandateFrom, type RuleJson, velocity } from "./harness.ts";

describe("velocity rules", () => {
  it("fire when the count is above the limit and report the counter either way.", () => {
    const seen: CounterSpec[] = [];
    const reading = (count: number): CounterReading => ({ group: "dep_1", members: 3, count, source: "mirror" });
    const mandate = mandateFrom([
      velocity(2, { scope: "department", department_id: "dep_1", count_decisions: ["allow"] }),
    ]);
    const set = createPolicySet([mandate]);
    const evaluate = (count: number, actionType = "payment.send", departmentIds = ["dep_1"]) => {
      const counterValue = (spec: CounterSpec): CounterReading => {
        seen.push(spec);
        return reading(count);
      };
      return set.evaluate(contextFrom({ actionType, departmentIds, counterValue }));
    };
    const limit = { scope: "department", group: "dep_1", members: 3, limit: 2, window: 60, source: "mirror" };
    const where = { mandateId: "mnd_a", rule: "rules[0]" };
    expect(evaluate(2).decision).to.equal(undefined);
    const { collectiveLimits } = evaluate(2);
    expect(collectiveLimits).to.have.length(1);
    expect(collectiveLimits[0]).to.deep.include({ ...limit, ...where, count: 2, remaining: 0 });
    expect(evaluate(5).decision).to.equal("escalate");
    expect(evaluate(5).collectiveLimits[0]?.remaining).to.equal(0);
    expect(evaluate(5).reasons[0]?.code).to.equal("LIMIT_EXCEEDED");
    expect(evaluate(5, "mail.send").collectiveLimits).to.deep.equal([]);
    expect(evaluate(5, "payment.send", ["dep_2"])).to.deep.include({ decision: undefined, collectiveLimits: [] });
    expect(new Set(seen).size).to.equal(1);
    expect(seen[0]).to.deep.include({ scope: "department", departmentId: "dep_1", windowMs: 60_000 });
  });

  it("report the counters of observing mandates too.", () => {
    const set = createPolicySet([mandateFrom([velocity(0)], { mode: "observe" })]);
    const result = set.evaluate(contextFrom());
    expect(result.decision).to.equal(undefined);
    expect(result.collectiveLimits).to.have.length(1);
    expect(result.observed[0]?.decision).to.equal("escalate");
  });
});

describe("an ordered sequence", () => {
  const steps = ["Secret.Read ", "http.*"];
  const rule = (over: RuleJson = {}): RuleJson => ({
    type: "sequence",
    decision: "block",
    description: "no leaks",
    conditions: { mode: "ordered", steps, window_seconds: "60", ...over },
  });
  const nowMs = Date.parse("2025-01-06T12:00:00Z");

  it("covers its last step alone, and says which steps were done.", () => {
    const set = createPolicySet([mandateFrom([rule()])]);
    const at = (actionType: string) =>
      set.evaluate(contextFrom({ actionType, nowMs, sequenceStartedAtMs: () => nowMs - 20_000 }));
    expect(at("secret.read").fired).to.deep.equal([]);
    expect(at("http.post").reasons).to.deep.equal([
      {
        code: "SEQUENCE_COMPLETED",
        message: "no leaks: `secret.read`, then `http.*` happened in order within 60 s",
        rule: "rules[0]",
        mandateId: "mnd_a",
        mandateName: "Mandate",
      },
    ]);
  });

  it("does not fire while the steps before were not done, nor for an agent outside of the department it names.", () => {
    const set = createPolicySet([mandateFrom([rule({ scope: "department", department_id: "dep_1" })])]);
    const decision = (over: object) => set.evaluate(contextFrom({ actionType: "http.get", nowMs, ...over })).decision;
    const sequenceStartedAtMs = () => nowMs;
    expect(decision({ departmentIds: ["dep_1"] })).to.equal(undefined);
    expect(decision({ departmentIds: ["dep_1"], sequenceStartedAtMs })).to.equal("block");
    expect(decision({ departmentIds: ["dep_2"], sequenceStartedAtMs })).to.equal(undefined);
  });

  it("has one key with others over the same steps, decisions and scope, whatever their windows.", () => {
    const keyOf = (over: RuleJson) => mandateFrom([rule(over)]).rules[0]?.ordered?.key;
    expect(keyOf({ steps: ["SECRET.READ", "HTTP.*"], window_seconds: "5", scope: "agent" })).to.equal(keyOf({}));
    expect(keyOf({ steps: ["http.*", "secret.read"] })).not.to.equal(keyOf({}));
    expect(keyOf({ scope: "workspace" })).not.to.equal(keyOf({}));
    expect(keyOf({ count_decisions: ["allow"] })).not.to.equal(keyOf({}));
  });
});
