import { expect } from "chai";
import fc from "fast-check";
import { coversPattern, matchesPattern } from "../../src/policy/action-patterns.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { CompiledMandate } from "../../src/policy/types.ts";
import { action, contextFrom, essence, mandateFrom, type RuleJson } from "./harness.ts";

const TYPES = ["a", "a.b", "a.b.c", "b", "payment.send"];
const ruleArbitrary = fc.record({
  decision: fc.constantFrom("allow", "block", "escalate"),
  tool: fc.constantFrom(undefined, "pay", "other"),
  types: fc.uniqueArray(fc.constantFrom(...TYPES, "*", "a*", "a.*", "a.b*", "*.b", "a*c", "*.*.c", "pay*.*"), {
    maxLength: 3,
  }),
  excluded: fc.uniqueArray(fc.constantFrom(...TYPES, "a.*", "*.c"), { maxLength: 1 }),
});
const mandateArbitrary = fc.record({
  scope: fc.constantFrom("workspace", "department", "agent"),
  target: fc.constantFrom("1", "2"),
  priority: fc.integer({ min: -1, max: 1 }),
  mode: fc.constantFrom("enforce", "observe"),
  rules: fc.array(ruleArbitrary, { maxLength: 3 }),
});
type MandateSpec = typeof mandateArbitrary extends fc.Arbitrary<infer T> ? T : never;

function fromSpec(spec: MandateSpec, id: string): CompiledMandate {
  const rules = spec.rules.map(({ decision, tool: name, types, excluded }): RuleJson => {
    if (
      excluded.length > 0 &&
      types.length > 0 &&
      !types.some((type) => excluded.some((each) => coversPattern(each, type)))
    ) {
      const action = { match_action_types: types, exclude_action_types: excluded };
      return { type: "action", decision, conditions: action, ...(name !== undefined && { tool: name }) };
    }
    const conditions = { match_action_types: types, rules: [{ field: "x", operator: "not_exists" }] };
    return { type: "metadata", decision, conditions, ...(name !== undefined && { tool: name }) };
  });
  return mandateFrom(rules, {
    id,
    scope: spec.scope as CompiledMandate["scope"],
    mode: spec.mode as CompiledMandate["mode"],
    priority: spec.priority,
    ...(spec.scope === "agent" && { agentId: `agt_${spec.target}` }),
    ...(spec.scope === "department" && { departmentId: `dep_${spec.target}` }),
  });
}

/** Finds the rules that cover an action by looking at every one. */
function scan(mandates: readonly CompiledMandate[], context: ReturnType<typeof contextFrom>): readonly string[] {
  return mandates
    .filter(({ scope, agentId, departmentId }) => {
      if (scope === "agent") return agentId === context.agentId;
      return scope === "workspace" || context.departmentIds.includes(departmentId ?? "");
    })
    .flatMap(({ id, rules }) => rules.map((rule) => ({ id, rule })))
    .filter(({ rule }) => rule.tool === undefined || rule.tool === context.toolName)
    .filter(
      ({ rule: { actionTypes: types } }) =>
        types.length === 0 || types.some((type) => matchesPattern(type, context.actionType)),
    )
    .filter(({ rule: { excludedTypes } }) => !excludedTypes.some((type) => matchesPattern(type, context.actionType)))
    .map(({ id, rule }) => `${id} ${rule.path}`)
    .sort();
}

describe("the index of a policy set", () => {
  const setArbitrary = fc.array(mandateArbitrary, { minLength: 1, maxLength: 8 });
  const factsArbitrary = fc.record({
    agentId: fc.constantFrom("agt_1", "agt_2", "agt_3"),
    departmentIds: fc.constantFrom([], ["dep_1"], ["dep_1", "dep_2"]),
    actionType: fc.constantFrom(...TYPES, "z"),
    toolName: fc.constantFrom(undefined, "pay", "other", "third"),
  });

  it("finds just the rules that a look at every rule finds.", () => {
    fc.assert(
      fc.property(setArbitrary, fc.array(factsArbitrary, { minLength: 1, maxLength: 4 }), (specs, actions) => {
        const mandates = specs.map((spec, index) => fromSpec(spec, `mnd_${index}`));
        const set = createPolicySet(mandates);
        for (const over of [...actions, ...actions]) {
          const context = contextFrom(over);
          const result = set.evaluate(context);
          const found = [...result.reasons, ...result.observed.flatMap((observed) => observed.reasons)];
          const places = found.map((reason) => `${reason.mandateId} ${reason.rule.split(".")[0]}`);
          expect(places.sort()).to.deep.equal(scan(mandates, context));
        }
      }),
      { numRuns: 500 },
    );
  });

  it("gives the same outcome in any order, and built at once or mandate by mandate.", () => {
    fc.assert(
      fc.property(setArbitrary, fc.infiniteStream(fc.nat()), factsArbitrary, (specs, noise, over) => {
        const mandates = specs.map((spec, index) => fromSpec(spec, `mnd_${index}`));
        const shuffled = mandates.map((mandate) => ({ mandate, at: noise.next().value })).sort((a, b) => a.at - b.at);
        const context = contextFrom(over);
        const want = essence(createPolicySet(mandates).evaluate(context));
        expect(essence(createPolicySet(shuffled.map(({ mandate }) => mandate)).evaluate(context))).to.deep.equal(want);
        let grown = createPolicySet(shuffled.map(({ mandate }) => ({ ...mandate, priority: 7 })).slice(0, 3));
        for (const { mandate } of shuffled) grown = grown.with(mandate);
        expect(essence(grown.evaluate(context))).to.deep.equal(want);
        const extra = fromSpec(specs[0] as MandateSpec, "mnd_extra");
        expect(essence(grown.with(extra).without("mnd_extra").evaluate(context))).to.deep.equal(want);
      }),
      { numRuns: 500 },
    );
  });

  it("decides alike when the rules of a mandate change places.", () => {
    fc.assert(
      fc.property(mandateArbitrary, factsArbitrary, (spec, over) => {
        const context = contextFrom(over);
        const decide = (rules: MandateSpec["rules"]) =>
          createPolicySet([fromSpec({ ...spec, rules }, "mnd_1")]).evaluate(context);
        const [forward, backward] = [decide(spec.rules), decide(spec.rules.toReversed())];
        expect(backward.decision).to.equal(forward.decision);
        // Of rules that decide alike, the first is told first.
        expect(backward.reasons.map(({ code }) => code)).to.have.members(forward.reasons.map(({ code }) => code));
        expect(backward.fired.map(({ decision }) => decision)).to.deep.equal(
          forward.fired.map(({ decision }) => decision),
        );
      }),
    );
  });

  it("leaves a set as it is when another is made of it.", () => {
    const first = createPolicySet([mandateFrom([action("allow", "*")], { id: "mnd_1" })]);
    const second = first.with(mandateFrom([action("block", "*")], { id: "mnd_2" }));
    expect(first.evaluate(contextFrom()).decision).to.equal("allow");
    expect(second.evaluate(contextFrom()).decision).to.equal("block");
    expect(second.without("mnd_2").evaluate(contextFrom()).decision).to.equal("allow");
    expect(second.without("mnd_9")).to.equal(second);
    expect([...second.mandates()].map(({ id }) => id)).to.have.members(["mnd_1", "mnd_2"]);
  });

  it("stays right when more action types come than it remembers.", () => {
    const set = createPolicySet([mandateFrom([action("block", "x.1*")])]);
    for (let index = 0; index < 10_000; index++) {
      const result = set.evaluate(contextFrom({ actionType: `x.${index}` }));
      expect(result.decision).to.equal(`${index}`.startsWith("1") ? "block" : undefined);
    }
  });
});
