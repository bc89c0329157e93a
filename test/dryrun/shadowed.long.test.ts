import { toJsonString } from "@bufbuild/protobuf";
import { expect } from "chai";
import fc from "fast-check";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { doInTurns } from "../../src/async/work.ts";
import { findShadowed, type ShadowedRule } from "../../src/dryrun/ask/shadowed.ts";
import { coversAction } from "../../src/dryrun/trace.ts";
import { matchesPattern } from "../../src/policy/action-patterns.ts";
import { Checks } from "../../src/policy/checks.ts";
import { coversAgent } from "../../src/policy/coverage.ts";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type {
  CompiledMandate,
  CounterSpec,
  EvaluationContext,
  MandateSource,
  ToolSchema,
} from "../../src/policy/types.ts";
import { contextFrom, lookup, mandateFrom, type RuleJson, toolFrom } from "../policy/harness.ts";
import { type Draw, draw, type NaiveSchema, objectFor, ruleFor } from "../policy/random-rules.ts";

const TOOL = toolFrom(
  {
    type: "object",
    properties: {
      amount: { type: "number" },
      count: { type: "integer" },
      any: {},
      to: { type: "string" },
      currency: { type: "string" },
      lines: { type: "array", items: { type: "object", properties: { amount: { type: "number" } } } },
    },
  },
  "pay",
);
const TOOLS = lookup(TOOL);

/** Two rules: whether the second is proved to be shadowed by the first. */
interface Pair {
  readonly says: string;
  readonly broad: RuleJson;
  readonly narrow: RuleJson;
  readonly overBroad?: Partial<MandateSource>;
  readonly overNarrow?: Partial<MandateSource>;
  readonly want: boolean;
}

const on = (conditions: readonly unknown[], decision = "block", joint = "AND"): RuleJson => ({
  type: "argument",
  tool: "pay",
  decision,
  conditions: { operator: joint, rules: conditions as never },
});
const amount = (operator: string, value: unknown, more = {}) => ({ field: "amount", operator, value, ...more });
const action = (decision: string, ...types: string[]): RuleJson => ({
  type: "action",
  decision,
  conditions: { match_action_types: types },
});
const velocity = (max: number, more: object = {}): RuleJson => ({
  type: "sequence",
  decision: "block",
  conditions: { mode: "velocity", match_action_types: ["pay*"], max_count: `${max}`, window_seconds: "60", ...more },
});

const PAIRS: readonly Pair[] = [
  {
    says: "a wider interval of the same severity",
    broad: on([amount(">", 100)]),
    narrow: on([amount(">", 500)]),
    want: true,
  },
  { says: "a narrower interval", broad: on([amount(">", 500)]), narrow: on([amount(">", 100)]), want: false },
  { says: "open and closed ends", broad: on([amount(">", 5)]), narrow: on([amount(">=", 5)]), want: false },
  { says: "closed and open ends", broad: on([amount(">=", 5)]), narrow: on([amount(">", 5)]), want: true },
  {
    says: "an interval outside of another",
    broad: on([amount("not_between", [1, 9])]),
    narrow: on([amount("<", 1)]),
    want: true,
  },
  {
    says: "a stricter decision",
    broad: on([amount(">", 1)], "block"),
    narrow: on([amount(">", 1)], "allow"),
    want: true,
  },
  {
    says: "a looser decision",
    broad: on([amount(">", 1)], "allow"),
    narrow: on([amount(">", 1)], "block"),
    want: false,
  },
  {
    says: "a missing value that only the narrow rule holds for",
    broad: on([amount(">", 1, { on_missing: "ignore" })]),
    narrow: on([amount(">", 5)]),
    want: false,
  },
  {
    says: "a currency that only the broad rule asks for, which makes it hold for more",
    broad: on([amount(">", 1, { currency: "EUR" })]),
    narrow: on([amount(">", 5)]),
    want: true,
  },
  {
    says: "a currency that only the narrow rule asks for, which makes it hold for more",
    broad: on([amount(">", 1)]),
    narrow: on([amount(">", 5, { currency: "EUR" })]),
    want: false,
  },
  {
    says: "types that only the broad rule compares, of an argument of any type",
    broad: on([{ field: "any", operator: "!=", value: 3 }]),
    narrow: on([{ field: "any", operator: ">", value: 5 }]),
    want: false,
  },
  {
    says: "members of a longer list",
    broad: on([{ field: "to", operator: "in", value: ["a", "b "] }]),
    narrow: on([{ field: "to", operator: "==", value: "B" }]),
    want: true,
  },
  {
    says: "one of several conditions",
    broad: on([amount(">", 1)]),
    narrow: on([amount(">", 5), { field: "to", operator: "exists" }]),
    want: true,
  },
  {
    says: "an OR of which one is not implied",
    broad: on([amount(">", 1)]),
    narrow: on([amount(">", 5), { field: "to", operator: "exists" }], "block", "OR"),
    want: false,
  },
  {
    says: "an OR on the broad side",
    broad: on([amount(">", 1), { field: "to", operator: "exists" }], "block", "OR"),
    narrow: on([amount(">", 5)]),
    want: true,
  },
  {
    says: "elements of a list",
    broad: on([{ field: "lines[].amount", operator: ">", value: 1 }]),
    narrow: on([{ field: "lines[].amount", operator: ">", value: 5 }]),
    want: true,
  },
  { says: "a rule for every action", broad: action("block", "*"), narrow: on([amount(">", 1)]), want: true },
  {
    says: "a wider pattern",
    broad: action("block", "pay.*"),
    narrow: action("escalate", "pay.out", "pay.in.*"),
    want: true,
  },
  { says: "a narrower pattern", broad: action("block", "pay.out"), narrow: action("escalate", "pay.*"), want: false },
  {
    says: "a narrower scope",
    broad: action("block", "x"),
    narrow: action("block", "x"),
    overBroad: { scope: "agent", agentId: "agt_1" },
    want: false,
  },
  {
    says: "the same scope",
    broad: action("block", "x"),
    narrow: action("block", "x"),
    overBroad: { scope: "agent", agentId: "agt_1" },
    overNarrow: { scope: "agent", agentId: "agt_1" },
    want: true,
  },
  {
    says: "a higher priority of the narrow one",
    broad: action("block", "x"),
    narrow: action("block", "x"),
    overNarrow: { priority: 1 },
    want: false,
  },
  {
    says: "a rule that observes",
    broad: action("block", "x"),
    narrow: action("block", "x"),
    overBroad: { mode: "observe" },
    want: false,
  },
  {
    says: "a lower limit in a longer window of a wider group",
    broad: velocity(2, { scope: "workspace", window_seconds: "90" }),
    narrow: velocity(3),
    want: true,
  },
  { says: "a shorter window", broad: velocity(2, { window_seconds: "30" }), narrow: velocity(3), want: false },
  {
    says: "fewer decisions that count",
    broad: velocity(2, { count_decisions: ["allow"] }),
    narrow: velocity(3),
    want: false,
  },
  {
    says: "one department beside the agent",
    broad: velocity(2, { scope: "department", department_id: "dep_1" }),
    narrow: velocity(3),
    want: false,
  },
  {
    says: "less trust",
    broad: { type: "trust", decision: "block", conditions: { below: 50 } },
    narrow: { type: "trust", decision: "escalate", conditions: { below: 20 } },
    want: true,
  },
  {
    says: "a content rule of more patterns",
    broad: { type: "content", decision: "block", conditions: { patterns: ["a", "b"] } },
    narrow: { type: "content", decision: "block", conditions: { patterns: ["b"] } },
    want: true,
  },
  {
    says: "a semantic rule that may block without a verdict",
    broad: action("escalate", "*"),
    narrow: { type: "semantic", decision: "escalate", conditions: { prompt: "p", on_unavailable: "block" } },
    want: false,
  },
  {
    says: "a semantic rule under a block",
    broad: action("block", "*"),
    narrow: { type: "semantic", decision: "block", conditions: { prompt: "p" } },
    want: true,
  },
];

function shadowedIn(mandates: readonly CompiledMandate[], tools = TOOLS): readonly ShadowedRule[] {
  const work = findShadowed(mandates, tools);
  for (;;) {
    const step = work.next();
    if (step.done) return step.value.found;
  }
}

describe("a shadowed rule", () => {
  for (const { says, broad, narrow, overBroad, overNarrow, want } of PAIRS) {
    it(`is ${want ? "" : "not "}proved for ${says}.`, () => {
      const mandates = [
        mandateFrom([broad], { id: "mnd_1", ...overBroad }, TOOLS),
        mandateFrom([narrow], { id: "mnd_2", ...overNarrow }, TOOLS),
      ];
      expect(shadowedIn(mandates).some(({ mandate }) => mandate.id === "mnd_2")).to.equal(want);
    });
  }

  it("is found in the mandate itself, with the earlier rule, and never by a rule that is equal and later.", () => {
    const [only, ...others] = shadowedIn([mandateFrom([action("block", "x"), action("block", "x")], {}, TOOLS)]);
    expect(others).to.deep.equal([]);
    expect([only?.rule.path, only?.by.rule.path]).to.deep.equal(["rules[1]", "rules[0]"]);
  });

  it("is looked for in bounded work, with turns for others.", async () => {
    const mandates = Array.from({ length: 30 }, (_, index) => {
      const rules = Array.from({ length: 200 }, (_none, at) => action("block", `x${index}.${at}`));
      return mandateFrom(rules, { id: `mnd_${index + 10}` });
    });
    let turns = 0;
    let isDone = false;
    const others = (): void => {
      turns++;
      if (!isDone) setImmediate(others);
    };
    setImmediate(others);
    const { found, compared, total } = await doInTurns(findShadowed(mandates, lookup()));
    isDone = true;
    expect(total).to.equal(6000);
    expect(compared).to.be.below(total);
    expect(found).to.deep.equal([]);
    expect(turns).to.be.above(5);
  });
});

const SCHEMA: NaiveSchema = {
  type: "object",
  properties: {
    a: { type: "number" },
    b: { type: ["string", "number"] },
    c: {},
    l: { type: "array", items: { type: ["integer", "null"] } },
    currency: { type: "string" },
  },
};
const DEPARTMENTS: Readonly<Record<string, readonly string[]>> = {
  agt_1: ["dep_1"],
  agt_2: ["dep_1", "dep_2"],
  agt_3: [],
};

interface Past {
  readonly agentId: string;
  readonly type: string;
  readonly decision: string;
  readonly ageMs: number;
}

/** Counts as the documents say it, without windows. */
function countOf(spec: CounterSpec, agentId: string, past: readonly Past[]): number {
  const own = DEPARTMENTS[agentId] ?? [];
  const counted = spec.departmentId === undefined ? own : [spec.departmentId];
  const inGroup = (other: string): boolean => {
    if (spec.scope === "workspace") return true;
    if (spec.scope === "agent" || counted.length === 0) return other === agentId;
    return (DEPARTMENTS[other] ?? []).some((id) => counted.includes(id));
  };
  const matching = past.filter(
    (each) =>
      inGroup(each.agentId) &&
      each.ageMs < spec.windowMs &&
      spec.patterns.some((pattern) => matchesPattern(pattern, each.type)) &&
      (spec.countDecisions.length === 0 || (spec.countDecisions as readonly string[]).includes(each.decision)),
  );
  return matching.length + 1;
}

const TYPES = ["pay.out", "pay.in", "read"];
const DECISIONS = ["allow", "block", "escalate"];

function randomContext(from: Draw, tool: ToolSchema): EvaluationContext {
  const args = objectFor(from, SCHEMA);
  const agentId = draw(from, Object.keys(DEPARTMENTS));
  const past = Array.from({ length: from(fc.nat, 8) }, () => ({
    agentId: draw(from, Object.keys(DEPARTMENTS)),
    type: draw(from, TYPES),
    decision: draw(from, DECISIONS),
    ageMs: from(fc.nat, 120_000),
  }));
  return contextFrom({
    agentId,
    departmentIds: DEPARTMENTS[agentId] ?? [],
    actionType: draw(from, TYPES),
    ...(from(fc.nat, 5) > 0 && { tool }),
    arguments: args,
    metadata: args,
    actionContent: draw(from, ["", "ab", "b5"]),
    trustTenths: from(fc.nat, 1000),
    nowMs: 1_750_000_000_000 + from(fc.nat, 604_800) * 1000,
    counterValue: (spec) => ({
      group: agentId,
      members: 1,
      source: "decision_log" as const,
      count: countOf(spec, agentId, past),
    }),
  });
}

function randomRule(from: Draw, tool: ToolSchema): RuleJson {
  const decision = draw(from, DECISIONS);
  const types = () => draw(from, [["pay.out"], ["pay.*"], ["*"], ["pay.in", "pay.o*"]]);
  const narrowed = from(fc.nat, 1) === 0 ? { match_action_types: types() } : {};
  switch (from(fc.nat, 11)) {
    case 0:
      return { type: "action", decision, conditions: { match_action_types: draw(from, [["pay.out"], ["pay.*"]]) } };
    case 1:
      return { type: "trust", decision, conditions: { ...narrowed, below: from(fc.nat, 100) } };
    case 2:
      return {
        type: "content",
        decision,
        conditions: { ...narrowed, patterns: draw(from, [["a"], ["b"], ["a", "b"]]) },
      };
    case 3:
    case 4: {
      const scope = draw(from, [
        {},
        { scope: "workspace" },
        { scope: "department" },
        { scope: "department", department_id: "dep_1" },
      ]);
      const counted = from(fc.nat, 2) === 0 ? { count_decisions: draw(from, [["allow"], ["allow", "block"]]) } : {};
      const window = { max_count: `${from(fc.nat, 4)}`, window_seconds: draw(from, ["30", "60", "100"]) };
      return {
        type: "sequence",
        decision,
        conditions: { mode: "velocity", match_action_types: types(), ...window, ...scope, ...counted },
      };
    }
    default: {
      const { type, joint, conditions } = ruleFor(from, tool);
      return {
        type,
        tool: tool.name,
        decision,
        conditions: { ...narrowed, operator: joint, rules: conditions as never },
      };
    }
  }
}

describe("every rule that is reported as shadowed", () => {
  it("decides none of 1,000 random actions, and the other rule fires whenever it does.", () => {
    let proved = 0;
    let fired = 0;
    const tool = toolFrom(SCHEMA as never, "odd");
    const tools = lookup(tool);
    fc.assert(
      fc.property(fc.gen(), (from) => {
        const mandates = Array.from({ length: 25 }, (_, index) => {
          const over = draw<Partial<MandateSource>>(from, [
            {},
            {},
            {},
            { priority: 1 },
            { scope: "agent", agentId: "agt_1" },
            { scope: "department", departmentId: "dep_1" },
          ]);
          return mandateFrom(
            [randomRule(from, tool), randomRule(from, tool)],
            { id: `mnd_${index + 10}`, ...over },
            tools,
          );
        });
        const found = shadowedIn(mandates, tools);
        proved += found.length;
        const shadowed = new Set(found.map(({ rule }) => rule));
        const set = createPolicySet(mandates);
        for (let each = 0; each < 1000 && found.length > 0; each++) {
          const context = randomContext(from, tool);
          const { winner } = set.evaluate(context);
          if (winner !== undefined && shadowed.has(winner.rule)) {
            throw new Error(
              `${JSON.stringify(winner.rule.source.conditions?.rules)} decides ${JSON.stringify(context.arguments)}`,
            );
          }
          for (const { mandate, rule, by } of found) {
            const fires = ({ check, velocity }: typeof rule): boolean => {
              const reading = velocity && context.counterValue(velocity.counter, context);
              return check({ ...context, checks: new Checks() }, reading) !== undefined;
            };
            if (!coversAgent(mandate, context) || !coversAction(mandate, rule, context) || !fires(rule)) continue;
            fired++;
            const isOver =
              coversAgent(by.mandate, context) && coversAction(by.mandate, by.rule, context) && fires(by.rule);
            const text = [rule, by.rule].map(({ source }) => toJsonString(RuleSchema, source)).join(" by ");
            if (!isOver) throw new Error(`${text} on ${JSON.stringify(context.arguments)}`);
          }
        }
      }),
      { numRuns: 12 },
    );
    expect(proved).to.be.above(20);
    expect(fired).to.be.above(1000);
  });
});
