import { create, type JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { ConditionsSchema, RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { generateTests, MAX_TESTS } from "../../src/dryrun/generate-tests.ts";
import { runTests } from "../../src/dryrun/run-tests.ts";
import { compileMandate } from "../../src/policy/compile/mandate.ts";
import { lookup, mandateFrom, mandateSource, type RuleJson, toolFrom, velocity } from "../policy/harness.ts";
import { threadMs } from "../support/thread-time.ts";
import { mandatesFrom, passEverywhere, shareFound } from "./generated-tests.ts";

const NONE = new Set<number>();

const PAYMENT = toolFrom(
  {
    type: "object",
    properties: {
      amount: { type: "integer" },
      currency: { type: "string", enum: ["EUR", "USD"] },
      note: { type: "string" },
    },
    required: ["amount"],
  },
  "send_payment",
);

/** A rule over the amount of a payment. */
const amountRule = (value: number): RuleJson => ({
  type: "argument",
  tool: "send_payment",
  decision: "block",
  conditions: { rules: [{ field: "amount", operator: ">", value, currency: "EUR" }] },
});

async function suiteOf(rules: readonly RuleJson[]) {
  return generateTests(mandateSource(rules), lookup(PAYMENT), NONE);
}

describe("generated tests", () => {
  it("pass under the compiled rules, for random mandates.", async () => {
    expect(await passEverywhere(40, 1)).to.be.above(2_000);
  });

  it("fail for nearly every change of a rule.", async () => {
    const { share, missed, byKind } = await shareFound(200, 1);
    expect(share, JSON.stringify(missed, undefined, 1)).to.be.at.least(0.93);
    for (const kind of ["currency", "ending", "repeat"]) {
      expect(byKind[kind]?.all, kind).to.be.above(0);
      expect(byKind[kind]?.found, JSON.stringify(missed, undefined, 1)).to.equal(byKind[kind]?.all);
    }
  });

  it("are the same for the same mandate, with ids of their own.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const mandate = mandateFrom([amountRule(500)], {}, lookup(PAYMENT));
    const { runs, notRun } = await runTests(tests, mandate, lookup(PAYMENT), { maxMs: -1 });
    expect([runs.length, notRun]).to.deep.equal([0, tests.length]);
  });

  it("name the case, say why, and take the bounds of an amount.", async () => {
    const { tests, notes } = await suiteOf([amountRule(500)]);
    expect(notes).to.deep.equal([]);
    const shown = tests.map(({ name, expected, because }) => ({ name, expected, because }));
    expect(shown).to.deep.include.members([
      {
        name: "`amount` just above 500 (501)",
        expected: { decision: "block", fires: true },
        because: "`amount > 500 EUR` is true, so the rule fires",
      },
      {
        name: "`amount` at 500 (500)",
        expected: { decision: "allow", fires: false },
        because: "`amount > 500 EUR` is false, so the rule does not fire",
      },
      {
        name: "`amount` in another currency",
        expected: { decision: "block", fires: true },
        because: "`amount` is an amount in another currency, which counts as a violation, so the rule fires",
      },
    ]);
  });

  /** One change of a condition, or of a pattern, each of which makes a rule fire for more or for less. */
  const CHANGES: readonly (readonly [what: string, before: object, after: object])[] = [
    [
      "loses its currency",
      { field: "amount", operator: ">", value: 500, currency: "EUR" },
      { field: "amount", operator: ">", value: 500 },
    ],
    [
      "loses the currency of a lower bound",
      { field: "amount", operator: "<=", value: 0, currency: "EUR" },
      { field: "amount", operator: "<=", value: 0 },
    ],
    [
      "loses the currency of a range",
      { field: "amount", operator: "between", value: [5, 9], currency: "EUR" },
      { field: "amount", operator: "between", value: [5, 9] },
    ],
    [
      "has another currency",
      { field: "amount", operator: ">", value: 500, currency: "EUR" },
      { field: "amount", operator: ">", value: 500, currency: "USD" },
    ],
    [
      "loses the first character of an ending",
      { field: "note", operator: "ends_with", value: "yz" },
      { field: "note", operator: "ends_with", value: "z" },
    ],
    [
      "loses the last character of a beginning",
      { field: "note", operator: "starts_with", value: "yz" },
      { field: "note", operator: "starts_with", value: "y" },
    ],
    [
      "loses the first character of a part",
      { field: "note", operator: "contains", value: "yz" },
      { field: "note", operator: "contains", value: "z" },
    ],
    [
      "may repeat blanks no times",
      { field: "note", operator: "matches", value: "rm\\s+-rf" },
      { field: "note", operator: "matches", value: "rm\\s*-rf" },
    ],
    [
      "may repeat a letter no times",
      { field: "note", operator: "matches", value: "^a+$" },
      { field: "note", operator: "matches", value: "^a*$" },
    ],
  ];
  for (const decision of ["block", "allow"]) {
    for (const [what, before, after] of CHANGES) {
      it(`fail for a rule that decides \`${decision}\` and ${what}.`, async () => {
        const rule = (condition: object): RuleJson => ({
          type: "argument",
          tool: "send_payment",
          decision,
          conditions: { rules: [{ field: "note", operator: "exists" }, condition as JsonObject] },
        });
        const { tests } = await suiteOf([rule(before)]);
        const changed = mandateFrom([rule(after)], {}, lookup(PAYMENT));
        const { runs } = await runTests(tests, changed, lookup(PAYMENT));
        expect(runs.filter(({ passed }) => !passed).map(({ test }) => test.name)).not.to.deep.equal([]);
      });
    }
  }

  for (const [what, excluded] of [
    ["no longer excludes a type", ["*.test"]],
    ["no longer excludes what stands after any characters", ["payment.refund"]],
    ["excludes more", ["payment.*", "*.test"]],
  ] as const) {
    it(`fail for a rule that ${what}, also for past actions.`, async () => {
      const types = { match_action_types: ["pay*.*"] };
      const rules = (exclude: readonly string[]): readonly RuleJson[] => [
        { type: "action", decision: "escalate", conditions: { ...types, exclude_action_types: [...exclude] } },
        velocity(2, { ...types, exclude_action_types: [...exclude] }),
        {
          type: "sequence",
          decision: "block",
          conditions: {
            mode: "ordered",
            steps: ["pay*.*", "mail"],
            window_seconds: 60,
            exclude_action_types: [...exclude],
          },
        },
      ];
      const { tests } = await suiteOf(rules(["payment.refund", "*.test"]));
      const { runs } = await runTests(tests, mandateFrom(rules(excluded)), lookup());
      const failed = new Set(runs.filter(({ passed }) => !passed).map(({ test }) => test.rule));
      expect([...failed].sort()).to.deep.equal(["rules[0]", "rules[1]", "rules[2]"]);
    });
  }

  it("fail for a content rule whose pattern may repeat no times.", async () => {
    const rule = (pattern: string): RuleJson => ({
      type: "content",
      decision: "block",
      conditions: { patterns: [pattern] },
    });
    const { tests } = await suiteOf([rule("drop\\s+table")]);
    const { runs } = await runTests(tests, mandateFrom([rule("drop\\s*table")]), lookup());
    expect(runs.filter(({ passed }) => !passed).map(({ test }) => test.name)).not.to.deep.equal([]);
  });

  it("leave the decision on an amount in another currency to the currency.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const inOther = tests.find(({ name }) => name === "`amount` in another currency");
    expect(inOther?.action.metadata?.arguments).to.include({ amount: 499, currency: "XTS" });
    const inCurrency = tests.find(({ name }) => name === "`amount` in the currency in another case and with blanks");
    expect(inCurrency?.action.metadata?.arguments).to.include({ amount: 499, currency: " eur " });
    expect([inOther?.expected.fires, inCurrency?.expected.fires]).to.deep.equal([true, false]);
  });

  it("take the counts at a limit, one below and one above.", async () => {
    const { tests } = await suiteOf([velocity(3)]);
    const counts = tests.filter(({ name }) => name.startsWith("count "));
    expect(counts.map(({ name, expected }) => `${name}: ${expected.fires}`)).to.include.members([
      "count 2 of 3: false",
      "count 3 of 3: false",
      "count 4 of 3: true",
    ]);
  });

  it("fail with the compiled rules' reasons when a bound is moved.", async () => {
    const { tests } = await suiteOf([amountRule(500)]);
    const moved = mandateFrom([amountRule(501)], {}, lookup(PAYMENT));
    const { runs } = await runTests(tests, moved, lookup(PAYMENT));
    const failed = runs.filter(({ passed }) => !passed);
    expect(failed.map(({ test }) => test.name)).to.include("`amount` just above 500 (501)");
    for (const { actual } of failed) expect(actual).to.deep.equal({ decision: "allow", fires: false });
  });

  const STALE: readonly RuleJson[] = [
    { type: "argument", tool: "send_payment", conditions: { rules: [{ field: "gone", operator: "exists" }] } },
    {
      type: "provenance",
      tool: "send_payment",
      conditions: { arguments: [{ path: "gone", kind: "destination" }], trusted: ["prompt"] },
    },
    { type: "semantic", tool: "send_payment", conditions: { prompt: "sends secrets" }, when: "args.gone == 1" },
  ];
  for (const rule of STALE) {
    it(`pass beside a stale rule of the type \`${rule.type}\`.`, async () => {
      const source = mandateSource([amountRule(500), { ...rule, decision: "escalate" }]);
      const compiled = compileMandate(source, lookup(PAYMENT), { allowStale: true });
      expect(compiled.rules.map(({ stale }) => stale)).to.deep.equal([false, true]);
      const { tests } = await generateTests(source, lookup(PAYMENT), new Set([1]));
      const { runs } = await runTests(tests, compiled, lookup(PAYMENT));
      expect(runs.length).to.be.above(5);
      expect(runs.filter(({ passed }) => !passed)).to.deep.equal([]);
    });
  }

  it("leave out what they cannot test, and say so.", async () => {
    const semantic = create(RuleSchema, {
      type: RuleType.SEMANTIC,
      decision: Decision.BLOCK,
      conditions: create(ConditionsSchema, { prompt: "leaks a secret" }),
    });
    const content: RuleJson = { type: "content", decision: "block", conditions: { patterns: ["\\p{Greek}+"] } };
    const source = mandateSource([content, velocity(1_000_000)]);
    const suite = await generateTests({ ...source, rules: [...source.rules, semantic] }, lookup(PAYMENT), NONE);
    expect(suite.tests.map(({ rule }) => rule)).not.to.include("rules[2]");
    expect(suite.notes).to.deep.equal([
      {
        rule: "rules[0]",
        message: "no text that matches can be derived from `patterns[0]`, so only mismatches are tested",
      },
      { rule: "rules[1]", message: "a limit above 10000 actions is not tested at its bound" },
      { rule: "rules[2]", message: "a semantic rule asks a model and has no tests" },
    ]);
  });

  it("are bounded for the largest mandate, and leave the event loop free.", async () => {
    const rules = Array.from({ length: 200 }, (_, index) => ({
      type: "argument",
      tool: "send_payment",
      decision: "block",
      conditions: {
        operator: "OR",
        rules: Array.from({ length: 100 }, (_each, at) => ({ field: "amount", operator: ">", value: index + at })),
      },
    }));
    const longestTurn = async (): Promise<number> => {
      let longest = 0;
      let last = threadMs();
      const timer = setInterval(() => {
        longest = Math.max(longest, threadMs() - last);
        last = threadMs();
      }, 1);
      const { tests, notes } = await suiteOf(rules);
      clearInterval(timer);
      expect(tests.length).to.be.within(1, MAX_TESTS);
      expect(notes.at(-1)?.message).to.match(/further cases are left out/);
      return longest;
    };
    // A processor that is shared is slower too: measured again when above.
    for (let attempt = 1; (await longestTurn()) >= 250; attempt++) expect(attempt).to.be.below(3);
  });

  it("begin no further one when their time is over.", async () => {
    for (const { mandate } of mandatesFrom(7)) {
      const { tests } = await generateTests(mandate.source, mandate.tools, new Set());
      if (tests.length === 0) continue;
      const { runs, notRun } = await runTests(tests, mandate.compiled, mandate.tools, { maxMs: -1 });
      expect([runs.length, notRun]).to.deep.equal([0, tests.length]);
      break;
    }
  });

  it("take the bounds of the numbers that a `when` compares, and pass under the compiled rules.", async () => {
    const rules: readonly RuleJson[] = [
      {
        type: "action",
        tool: "send_payment",
        decision: "block",
        when: 'args.amount > 500 && agent.trust < 70 && fold(args.note) == "hi"',
      },
      { ...amountRule(100), decision: "escalate", when: 'args.currency in ["EUR", "CHF"] || !has(args.note)' },
      {
        type: "action",
        decision: "allow",
        when: 'args.a.b >= 5 ? args.kind == "x" : args.list.exists(e, e > args.amount)',
      },
    ];
    const { tests, notes } = await suiteOf(rules);
    expect(notes).to.deep.equal([]);
    const named = tests.map(({ rule, name, expected }) => `${rule} ${name}: ${expected.fires}`);
    expect(named).to.include.members([
      "rules[0] comparisons of `when` that hold: true",
      "rules[0] `args.amount` at 500: false",
      "rules[0] `args.amount` missing: true",
      "rules[0] `agent.trust` at 70: false",
      'rules[0] `args.note` another text ("other"): false',
      "rules[2] `args.a.b` just below 5: false",
      "rules[2] `args.list` one element that does not pass, one that does: true",
    ]);
    const { runs } = await runTests(tests, mandateFrom(rules, {}, lookup(PAYMENT)), lookup(PAYMENT), { maxMs: 60_000 });
    expect(runs.filter(({ passed }) => !passed).map(({ test, actual }) => ({ test, actual }))).to.deep.equal([]);
    expect(runs).to.have.length(tests.length);
  });

  /** One change of an expression, which at least one test must notice. */
  const WHEN_CHANGES: readonly (readonly [before: string, after: string])[] = [
    ["args.amount > 500", "args.amount >= 500"],
    ["args.amount > 500", "args.amount > 501"],
    ["args.amount * 2 == 1000", "args.amount * 2 <= 1000"],
    ["args.amount > 5 && args.amount < 100", "args.amount > 5 && args.amount <= 100"],
    ["args.insured || args.amount > 500", "args.insured || args.amount > 501"],
    ["args.insured || args.amount > 500", "args.insured && args.amount > 500"],
    [
      "(args.insured || args.amount > 5) && args.price > 10.0",
      "(args.insured || args.amount > 6) && args.price > 10.0",
    ],
    ["args.insured ? args.amount > 500 : args.amount > 20", "args.insured ? args.amount > 500 : args.amount > 21"],
    ["args.lines.all(l, l.qty <= 10)", "args.lines.all(l, l.qty < 10)"],
    ["args.lines.all(l, l.qty <= 10)", "args.lines.exists(l, l.qty <= 10)"],
    ["args.lines.exists(l, l.qty > 10)", "args.lines.exists_one(l, l.qty > 10)"],
    ["args.lines.exists(l, l.qty > 10)", "args.lines.exists(l, l.qty > 11)"],
    ["args.lines.filter(l, l.qty > 10).size() > 0", "args.lines.filter(l, l.qty > 11).size() > 0"],
    ["sum(args.lines.map(l, l.price * l.qty)) > 1000.0", "sum(args.lines.map(l, l.price * l.qty)) > 1001.0"],
    ["args.lines[2].qty > 10", "args.lines[2].qty > 11"],
    ["args.lines[2].qty > args.lines[0].qty", "args.lines[2].qty >= args.lines[0].qty"],
    ["args.lines.size() > 3", "args.lines.size() > 4"],
    ["size(args.note) > 20", "size(args.note) >= 20"],
    ["args.price < args.list_price * 0.8", "args.price < args.list_price * 0.81"],
    ["args.note != args.ref", "args.note == args.ref"],
    ['args.amount > {"EUR": 500, "USD": 550}[args.currency]', 'args.amount > {"EUR": 500, "USD": 560}[args.currency]'],
    ['now - timestamp(args.at) > duration("24h")', 'now - timestamp(args.at) >= duration("24h")'],
    ['now - timestamp(args.at) > duration("24h")', 'now - timestamp(args.at) > duration("25h")'],
    ['date(args.day) > now - duration("720h")', 'date(args.day) > now - duration("721h")'],
    ['now < timestamp("2030-01-01T00:00:00Z")', 'now < timestamp("2030-01-02T00:00:00Z")'],
    ['now.getHours("Europe/Berlin") >= 17', 'now.getHours("Europe/Berlin") > 17'],
    ['now.getHours("Europe/Berlin") >= 17', "now.getHours() >= 17"],
    ["now.getDayOfWeek() == 0", "now.getDayOfWeek() == 1"],
    ['duration(args.wait) > duration("90s")', 'duration(args.wait) > duration("91s")'],
    ["int(args.code) > 5", "int(args.code) > 6"],
    ["metadata.risk > 50", "metadata.risk > 51"],
    ["agent.trust < 70", "agent.trust <= 70"],
    ['"dep_x" in agent.departments', '"dep_y" in agent.departments'],
    ['action.content.contains("drop")', 'action.content.contains("dro")'],
    ['action.type == "a.b"', 'action.type == "a.c"'],
    ['fold(args.note) == "kp"', 'args.note == "kp"'],
    ['args.note in ["a", "b"]', 'args.note in ["a"]'],
    ['args.note.startsWith("test-")', 'args.note.startsWith("test")'],
    ['args.note.matches("^a+$")', 'args.note.matches("^a*$")'],
    ['in_list(args.note, "names")', 'in_list(args.note, "none")'],
    ['host(args.url) == "api.example.com"', 'host(args.url).endsWith("api.example.com")'],
    ['email_domain(args.mail) in ["example.com"]', 'args.mail.endsWith("@example.com")'],
    ['path_inside(args.path, "/work")', 'args.path.startsWith("/work")'],
    ["has(args.note) && has(args.ref)", "has(args.note)"],
  ];
  for (const [before, after] of WHEN_CHANGES) {
    it(`pass for \`${before}\` and notice \`${after}\`.`, async () => {
      for (const decision of ["block", "allow"]) {
        const rule = (when: string): RuleJson => ({ type: "action", decision, when });
        const { tests, notes } = await suiteOf([rule(before)]);
        expect(notes).to.deep.equal([]);
        const results = async (when: string) => {
          const { runs } = await runTests(tests, mandateFrom([rule(when)], {}, lookup(PAYMENT)), lookup(PAYMENT));
          return runs.filter(({ passed }) => !passed).map(({ test }) => test.name);
        };
        expect(await results(before)).to.deep.equal([]);
        expect(await results(after), JSON.stringify(tests.map(({ name }) => name))).not.to.deep.equal([]);
      }
    });
  }

  it("ask the library about no expression that does not end within its steps.", async () => {
    const grown =
      `args.note.replace("i", "${"i".repeat(200)}")`.repeat(1) +
      `.replace("i", "${"i".repeat(200)}").replace("i", "${"i".repeat(200)}").replace("i", "${"i".repeat(200)}")`;
    const { tests, notes } = await suiteOf([
      { type: "action", tool: "send_payment", decision: "block", when: `${grown} == "i" && args.note == "iii"` },
    ]);
    expect(notes).to.have.length(1);
    expect(tests.length).to.be.above(0);
  });
});
