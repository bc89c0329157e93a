import type { JsonObject } from "@bufbuild/protobuf";
import { expect } from "chai";
import { createPolicySet } from "../../src/policy/policy-set.ts";
import type { PolicyResult, PolicySet } from "../../src/policy/types.ts";
import { threadMs } from "../support/thread-time.ts";
import { contextFrom, lookup, mandateFrom, type RuleJson, toolFrom } from "./harness.ts";

const line = { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } };
const tool = toolFrom({
  type: "object",
  properties: {
    note: { type: "string" },
    amount: { type: "number" },
    currency: { type: "string" },
    list: { type: "array", items: { type: "string" } },
    lines: { type: "array", items: line },
  },
});

const repeated = (text: string, length: number): string =>
  text.repeat(Math.ceil(length / text.length)).slice(0, length);
const many = <T>(count: number, each: (index: number) => T): T[] => Array.from({ length: count }, (_, at) => each(at));

/** Compiles rules of some conditions each. */
function policyOf(rules: number, conditions: RuleJson[], decision = "block") {
  const rule: RuleJson = { tool: "pay", decision, conditions: { operator: "OR", rules: conditions } };
  return createPolicySet([
    mandateFrom(
      many(rules, () => rule),
      {},
      lookup(tool),
    ),
  ]);
}

const evaluate = (policy: PolicySet, args: JsonObject): PolicyResult =>
  policy.evaluate(contextFrom({ tool, arguments: args, metadata: args }));

/** Milliseconds of this thread's processor that something takes. */
function processorMs(run: () => unknown): number {
  const before = threadMs();
  run();
  return threadMs() - before;
}

const codeOf = ({ decision, reasons }: PolicyResult) => [decision, reasons[0]?.code];

/** Texts of about a megabyte in UTF-8: letters of two scripts, marks, and characters that a fold removes or makes longer. */
const TEXTS: Readonly<Record<string, string>> = {
  latin: repeated("ÄÖÜ hay and more hay ", 500_000),
  cyrillic: repeated("стог сена и ещё сена ", 500_000),
  marks: repeated("e\u0323\u0302a\u0316 ", 450_000),
  "marks out of order": repeated("\u0301\u0316", 450_000),
  "ten marks a letter": repeated(`a${"\u0301\u0316".repeat(5)}`, 450_000),
  "full-width": repeated("ＫＰ ", 340_000),
  invisible: repeated("k\u200b", 340_000),
  phrases: repeated("\ufdfa", 340_000),
  words: repeated("㌖", 340_000),
};

/** Calls made to be slow, each under 2,000 conditions. */
const ATTACKS: readonly (readonly [string, (index: number) => RuleJson, JsonObject])[] = [
  ...Object.entries(TEXTS).flatMap(([name, note]): (typeof ATTACKS)[number][] => [
    [
      `parts of a long text, ${name}`,
      (at) => ({ field: "note", operator: "contains", value: `needle ${at}` }),
      { note },
    ],
    [`a long text, ${name}`, (at) => ({ field: "note", operator: "starts_with", value: `needle ${at}` }), { note }],
    [
      `a long text in place of a currency, ${name}`,
      (at) => ({ field: "amount", operator: ">", value: 1_000 + at, currency: "EUR" }),
      { amount: 5, currency: note },
    ],
    [`the length of a long text, ${name}`, (at) => ({ field: "note", operator: "length_gt", value: at }), { note }],
  ]),
  [
    "a hundred parts of a long text",
    (at) => ({ field: "note", operator: "contains_any", value: many(100, (each) => `сено ${at} ${each}`) }),
    { note: TEXTS.cyrillic ?? "" },
  ],
  [
    "a list of many texts",
    (at) => ({ field: "list", operator: "contains", value: `needle ${at}` }),
    { list: many(24_000, (at) => `e\u0323\u0302${at}`) },
  ],
  [
    "a list of one text many times",
    () => ({ field: "list", operator: "subset_of", value: ["a", "b"] }),
    { list: many(24_000, () => "a") },
  ],
  [
    "a field of many items",
    (at) => ({ field: "lines[].amount", operator: ">", value: 1_000 + at, currency: "EUR" }),
    { lines: many(8_000, (at) => ({ amount: at % 100, currency: "eur" })) },
  ],
  [
    "a field of many items without it",
    (at) => ({ field: "lines[].amount", operator: ">", value: 1_000 + at, on_missing: "ignore" }),
    { lines: many(24_000, () => null) },
  ],
  [
    "many short texts that grow",
    (at) => ({ field: "lines[].currency", operator: "contains", value: `needle ${at}` }),
    { lines: many(2_000, () => ({ currency: "\ufdfa".repeat(100) })) },
  ],
  [
    "patterns over many disguised texts",
    (at) => ({ field: "lines[].currency", operator: "matches", value: `^n${at}$` }),
    { lines: many(2_000, () => ({ currency: "\ufdfa".repeat(100) })) },
  ],
  [
    "patterns over a text of blanks and invisible characters",
    (at) => ({ field: "note", operator: "matches", value: `^n${at}$` }),
    { note: repeated(" \u200b", 400_000) },
  ],
  [
    "long texts that differ at their ends",
    (at) => ({ field: "lines[].currency", operator: "==", value: `needle ${at}` }),
    { lines: many(45, (at) => ({ currency: `${"x".repeat(20_000)}${at}` })) },
  ],
];

describe("comparing a call with conditions", () => {
  for (const [name, condition, args] of ATTACKS) {
    it(`takes few milliseconds for ${name}, and holds when it is not done.`, () => {
      // The patterns of one mandate are bounded.
      const policy = policyOf(condition(0).operator === "matches" ? 8 : 20, many(100, condition));
      let result: PolicyResult | undefined;
      // Seconds to minutes without a budget; the bound leaves room for a busy machine.
      expect(processorMs(() => (result = evaluate(policy, args)))).to.be.below(250);
      expect(result?.decision).to.equal("block");
    });
  }

  it("says that it took too long, and lets no rule allow.", () => {
    const [, condition, args] = ATTACKS[0] as (typeof ATTACKS)[number];
    const conditions = many(100, condition);
    expect(codeOf(evaluate(policyOf(1, conditions), args))).to.deep.equal(["block", "CHECK_TOO_LONG"]);
    expect(evaluate(policyOf(1, conditions, "allow"), args).decision).to.equal(undefined);
  });

  it("is done for 150 parts of a text of 50,000 characters, and for 50 conditions on a field of each of 2,000 items.", () => {
    const note = TEXTS.cyrillic?.slice(0, 50_000) ?? "";
    const needles = many(100, (at) => ({ field: "note", operator: "contains", value: `needle ${at}` }));
    expect(evaluate(policyOf(1, needles), { note }).decision).to.equal(undefined);
    const last = { field: "note", operator: "contains", value: "СЕНА" };
    const found = evaluate(policyOf(3, [...needles.slice(0, 49), last]), { note });
    expect(codeOf(found)).to.deep.equal(["block", "CONDITION_HELD"]);
    const lines = many(2_000, (at) => ({ amount: at % 100 }));
    const limits = many(50, (at) => ({ field: "lines[].amount", operator: ">", value: 1_000 + at }));
    expect(evaluate(policyOf(1, limits), { lines }).decision).to.equal(undefined);
  });
});
