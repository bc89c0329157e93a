import { createHash } from "node:crypto";
import { expect } from "chai";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { CompiledMandate } from "../../src/policy/types.ts";
import { canonicalJson } from "../../src/tree/canonical.ts";
import {
  action,
  contextFrom,
  essence,
  lookup,
  mandateFrom,
  mandateSource,
  type RuleJson,
  toolFrom,
  velocity,
} from "./harness.ts";

const tool = toolFrom({ type: "object", properties: { amount: { type: "number" }, note: { type: "string" } } });

function large(decision = "block"): RuleJson {
  return { tool: "pay", decision, conditions: { rules: [{ field: "amount", operator: ">", value: 500 }] } };
}

describe("a policy set", () => {
  it("decides nothing when no rule fires.", () => {
    const result = createPolicySet([mandateFrom([action("block", "mail.send")])]).evaluate(contextFrom());
    expect(essence(result)).to.deep.equal({
      decision: undefined,
      winner: undefined,
      reasons: [],
      fired: [],
      observed: [],
      limits: [],
    });
  });

  it("takes block before escalate before allow, whatever the priorities.", () => {
    const mandates = [
      mandateFrom([action("allow", "payment.send")], { id: "mnd_1", priority: 9 }),
      mandateFrom([action("escalate", "payment.*")], { id: "mnd_2", priority: 5 }),
      mandateFrom([action("block", "*")], { id: "mnd_3", priority: -5 }),
    ];
    const decisionOf = (list: readonly CompiledMandate[]) => createPolicySet(list).evaluate(contextFrom()).decision;
    expect(decisionOf(mandates)).to.equal("block");
    expect(decisionOf(mandates.slice(0, 2))).to.equal("escalate");
    expect(decisionOf(mandates.slice(0, 1))).to.equal("allow");
  });

  it("breaks ties by priority, then by name, folded.", () => {
    const of = (id: string, name: string, priority: number) =>
      mandateFrom([action("block", "*"), action("block", "*")], { id, name, priority });
    const [low, b, a, wide] = [of("1", "A", 1), of("2", "beta", 2), of("3", "ALPHA", 2), of("0", "ｚeta", 2)];
    for (const mandates of [
      [low, b, a, wide],
      [wide, a, b, low],
    ]) {
      const result = createPolicySet(mandates).evaluate(contextFrom());
      expect(result.reasons.map(({ mandateId, rule }) => `${mandateId} ${rule}`)).to.deep.equal(
        ["3", "2", "0", "1"].flatMap((id) => [`${id} rules[0]`, `${id} rules[1]`]),
      );
      expect(result.winner?.mandate.id).to.equal("3");
    }
  });

  it("names the same mandates wherever the same policies have other ids.", () => {
    const names = ["limits", "Embargo", "hours", "ABC", "escrow"];
    const winners = [0, 1, 2, 3, 4].map((shift) => {
      const mandates = names.map((name, index) =>
        mandateFrom([action("block", "*")], { id: `mnd_${(index + shift) % names.length}`, name }),
      );
      const { reasons, winner } = createPolicySet(mandates).evaluate(contextFrom());
      return [winner?.mandate.name, ...reasons.map(({ mandateName }) => mandateName)].join();
    });
    expect(new Set(winners)).to.deep.equal(new Set(["ABC,ABC,Embargo,escrow,hours,limits"]));
  });

  it("breaks ties of one name by id.", () => {
    const low = mandateFrom([action("block", "*")], { id: "mnd_1", priority: 1 });
    const b = mandateFrom([action("block", "*")], { id: "mnd_b", priority: 2 });
    const a = mandateFrom([action("block", "*")], { id: "mnd_a", priority: 2 });
    const result = createPolicySet([low, b, a]).evaluate(contextFrom());
    expect(result.reasons.map((reason) => reason.mandateId)).to.deep.equal(["mnd_a", "mnd_b", "mnd_1"]);
    expect(result.winner?.mandate.id).to.equal("mnd_a");
    expect(result.fired.map(({ mandate }) => mandate.id)).to.deep.equal(["mnd_1", "mnd_a", "mnd_b"]);
  });

  it("takes the most restrictive rule of a mandate.", () => {
    const rules = [action("allow", "*"), action("block", "payment.*"), action("escalate", "*")];
    const result = createPolicySet([mandateFrom(rules)]).evaluate(contextFrom());
    expect(result.winner?.rule.path).to.equal("rules[1]");
    expect(essence(result).fired).to.deep.equal(["mnd_a block"]);
    expect(result.reasons.map((reason) => reason.rule)).to.deep.equal(["rules[1]", "rules[2]", "rules[0]"]);
  });

  it("names at most some 200 reasons, those of the most decisive rules.", () => {
    const rules = Array.from({ length: 300 }, (_, index) => action(index === 299 ? "block" : "escalate", "*"));
    const { reasons } = createPolicySet([mandateFrom(rules)]).evaluate(contextFrom());
    expect(reasons).to.have.length(200);
    expect(reasons[0]?.rule).to.equal("rules[299]");
  });

  it("gives observing mandates no influence.", () => {
    const observing = mandateFrom([action("block", "*")], { id: "mnd_o", mode: "observe", priority: 9 });
    const enforcing = mandateFrom([action("allow", "*")], { id: "mnd_e" });
    const result = createPolicySet([observing, enforcing]).evaluate(contextFrom());
    expect(result.decision).to.equal("allow");
    expect(result.reasons.map((reason) => reason.mandateId)).to.deep.equal(["mnd_e"]);
    expect(result.observed).to.have.length(1);
    expect(result.observed[0]).to.deep.include({ mandate: observing, decision: "block" });
    expect(result.observed[0]?.reasons[0]?.code).to.equal("ACTION_MATCHED");
    expect(createPolicySet([observing]).evaluate(contextFrom()).decision).to.equal(undefined);
  });

  it("names the mandates that fired or would have, with what each of them found, and no others.", () => {
    const mandates = [
      mandateFrom([action("allow", "*"), action("escalate", "payment.*")], { id: "mnd_b" }),
      mandateFrom([action("block", "*")], { id: "mnd_o", mode: "observe" }),
      mandateFrom([large(), velocity(9)], { id: "mnd_idle" }, lookup(tool)),
      mandateFrom([action("block", "payment.send")], { id: "mnd_a", version: 4, digest: "abc" }),
    ];
    const result = createPolicySet(mandates).evaluate(contextFrom({ tool, arguments: { amount: 1 } }));
    const { fired, observed, limits, reasons } = essence(result);
    expect(fired).to.deep.equal(["mnd_a block", "mnd_b escalate"]);
    expect(reasons).to.deep.equal([
      "mnd_a rules[0] ACTION_MATCHED",
      "mnd_b rules[1] ACTION_MATCHED",
      "mnd_b rules[0] ACTION_MATCHED",
    ]);
    expect(result.fired[0]?.mandate).to.include({ id: "mnd_a", version: 4, digest: "abc" });
    expect(observed).to.deep.equal(["mnd_o block rules[0] ACTION_MATCHED"]);
    expect(limits).to.deep.equal(["mnd_idle rules[1]"]);
  });

  it("has a digest of the mandates in force, whatever their order and however they came to be in it.", () => {
    const a = mandateFrom([action("block", "*")], { id: "mnd_a", digest: "da" });
    const b = mandateFrom([action("allow", "*")], { id: "mnd_b", version: 3, digest: "db", mode: "observe" });
    const text = canonicalJson([
      ["mnd_a", 1, "da"],
      ["mnd_b", 3, "db"],
    ]);
    const digest = createHash("sha256").update(text).digest("hex");
    const sets = [createPolicySet([a, b]), createPolicySet([b, a]), createPolicySet([b]).with(a)];
    expect(sets.map((set) => set.digest)).to.deep.equal([digest, digest, digest]);
    expect(createPolicySet([a]).with(b).without("mnd_b").digest).to.equal(createPolicySet([a]).digest);
    expect(createPolicySet([a, { ...b, version: 4 }]).digest).not.to.equal(digest);
    expect(createPolicySet([a, { ...b, digest: "dc" }]).digest).not.to.equal(digest);
  });

  it("evaluates a rule once though several of its patterns match.", () => {
    const result = createPolicySet([mandateFrom([action("block", "payment.send", "payment.*", "pay*", "*")])]).evaluate(
      contextFrom(),
    );
    expect(result.reasons).to.have.length(1);
  });

  it("applies a mandate to its scope alone.", () => {
    const mandates = [
      mandateFrom([action("block", "*")], { id: "mnd_w" }),
      mandateFrom([action("block", "*")], { id: "mnd_d", scope: "department", departmentId: "dep_1" }),
      mandateFrom([action("block", "*")], { id: "mnd_a", scope: "agent", agentId: "agt_1" }),
    ];
    const set = createPolicySet(mandates);
    const idsOf = (over: object) => set.evaluate(contextFrom(over)).fired.map(({ mandate }) => mandate.id);
    expect(idsOf({ agentId: "agt_1", departmentIds: ["dep_0", "dep_1"] })).to.deep.equal(["mnd_a", "mnd_d", "mnd_w"]);
    expect(idsOf({ agentId: "agt_2", departmentIds: ["dep_2"] })).to.deep.equal(["mnd_w"]);
    const principals = [{ agentId: "agt_1", departmentIds: [] }];
    expect(idsOf({ agentId: "agt_2", principals })).to.deep.equal(["mnd_a", "mnd_w"]);
  });

  it("narrows any rule by its tool, registered or not.", () => {
    const set = createPolicySet([mandateFrom([{ ...action("block", "*"), tool: "other" }])]);
    expect(set.evaluate(contextFrom({ toolName: "other" })).decision).to.equal("block");
    expect(set.evaluate(contextFrom({ toolName: "Other" })).decision).to.equal("block");
    expect(set.evaluate(contextFrom({ tool, toolName: "other" })).decision).to.equal(undefined);
    expect(set.evaluate(contextFrom()).decision).to.equal(undefined);
  });

  it("narrows an argument rule by action types.", () => {
    const rule = {
      ...large(),
      conditions: { ...(large().conditions as object), match_action_types: ["Payment.*"] },
    };
    const set = createPolicySet([mandateFrom([rule], {}, lookup(tool))]);
    expect(set.evaluate(contextFrom({ tool, arguments: { amount: 900 } })).decision).to.equal("block");
    expect(set.evaluate(contextFrom({ tool, arguments: { amount: 900 }, actionType: "x" })).decision).to.equal(
      undefined,
    );
  });
});

describe("other rules", () => {
  it("fire when trust is below the limit, to the tenth.", () => {
    const set = (below: number) =>
      createPolicySet([mandateFrom([{ type: "trust", decision: "block", conditions: { below } }])]);
    for (let tenths = 0; tenths <= 1000; tenths++) {
      const decide = (limit: number) => set(limit / 10).evaluate(contextFrom({ trustTenths: tenths })).decision;
      expect(decide(tenths)).to.equal(undefined);
      if (tenths < 1000) expect(decide(tenths + 1)).to.equal("block");
    }
  });

  it("fire when a pattern is found in the content without regard to case.", () => {
    const rule = { type: "content", decision: "escalate", conditions: { patterns: ["never", "DROP\\s+table"] } };
    const set = createPolicySet([mandateFrom([{ ...rule, description: "No dropping" }])]);
    const result = set.evaluate(contextFrom({ actionContent: "please drop   TABLE x" }));
    expect(result.reasons[0]).to.include({
      code: "CONTENT_MATCHED",
      message: "No dropping: `DROP\\s+table` is found in the content",
    });
    expect(set.evaluate(contextFrom({ actionContent: "droptable" })).decision).to.equal(undefined);
  });
});

describe("a stale mandate", () => {
  const changed = toolFrom({ type: "object", properties: { total: { type: "number" } } }, "pay", 2);
  const stale = (rules: readonly RuleJson[], over = {}) =>
    compileMandate(mandateSource(rules, over), lookup(changed), { allowStale: true });

  it("keeps the decision of a rule that blocked, and escalates in the place of any other.", () => {
    const decide = (decision: string) =>
      createPolicySet([stale([{ ...large(), decision }])]).evaluate(contextFrom({ tool: changed })).decision;
    expect(["block", "escalate", "allow"].map(decide)).to.deep.equal(["block", "escalate", "escalate"]);
  });

  it("covers every call of the rule's tool and leaves other calls alone.", () => {
    const mandate = stale([large()]);
    expect(mandate.violations.map(({ reason }) => reason)).to.deep.equal(["FIELD_NOT_IN_SCHEMA"]);
    const set = createPolicySet([mandate]);
    const result = set.evaluate(contextFrom({ tool: changed, arguments: { amount: 1 } }));
    expect(result.decision).to.equal("block");
    expect(result.reasons[0]).to.include({ code: "MANDATE_STALE", rule: "rules[0]", mandateId: "mnd_a" });
    expect(set.evaluate(contextFrom({ toolName: "other" })).decision).to.equal(undefined);
  });

  it("covers what a rule without a tool narrows to, or everything if that is no pattern either.", () => {
    const narrowed = {
      type: "content",
      decision: "block",
      conditions: { match_action_types: ["mail.*"], patterns: ["("] },
    };
    const broken = { type: "action", decision: "block", conditions: { match_action_types: ["*a*b*c*d*"] } };
    const decide = (rule: RuleJson, actionType: string) =>
      createPolicySet([stale([rule])]).evaluate(contextFrom({ actionType })).decision;
    expect(decide(narrowed, "mail.send")).to.equal("block");
    expect(decide(narrowed, "payment.send")).to.equal(undefined);
    expect(decide(broken, "anything")).to.equal("block");
  });

  it("keeps its other rules in force, with their places.", () => {
    const set = createPolicySet([stale([large(), action("block", "payment.send")])]);
    const result = set.evaluate(contextFrom({ tool: changed, arguments: {} }));
    expect(result.decision).to.equal("block");
    expect(result.reasons.map((reason) => reason.rule)).to.deep.equal(["rules[0]", "rules[1]"]);
  });

  it("has no effect while it observes.", () => {
    const set = createPolicySet([stale([large()], { mode: "observe" })]);
    expect(set.evaluate(contextFrom({ tool: changed })).decision).to.equal(undefined);
  });
});
