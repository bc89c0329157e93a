import { expect } from "chai";
import { expressionBefore, toolAround } from "../../src/dashboard/screens/mandates/when-text.ts";

/** Texts with a `¦` at the position; `undefined` outside of expressions. */
const CASES: readonly (readonly [text: string, before: string | undefined, quote?: string])[] = [
  ["rules:\n  - when: args.¦", "args."],
  ["rules:\n  - type: action\n    when: args.a > 5 && ¦", "args.a > 5 && "],
  ["when:¦", undefined],
  ["when: ¦", ""],
  ["when: args.¦x > 5\nmode: observe", "args."],
  ["when: a\nmode: ¦", undefined],
  ["- when: a\n  decision: ¦", undefined],
  ["- when: a &&\n    args.¦\n  decision: block", "a &&\n    args."],
  ["- when:\n    args.¦", "\n    args."],
  ['- when: "args.to == \\"x\\" && args.¦', 'args.to == "x" && args.', '\\"'],
  ['- when: "a \\\\ b" ¦', undefined],
  ['- when: "a\\\\b ¦', "a\\b ", '\\"'],
  ["- when: 'it''s ¦", "it's "],
  ["- when: 'it' ¦", undefined],
  ["- when: >-\n    a &&\n      b.¦\n", "    a &&\n      b."],
  ["- when: |2+ # note\n    a ||\n\n    ¦", "    a ||\n\n    "],
  ["- when: |\n    a\n  decision: bl¦", undefined],
  ["- when: |¦", undefined],
  ["- when: a # note¦", undefined],
  ["- when: &anchor¦", undefined],
  ["- { type: action, when: args.¦ }", "args."],
  ["- { type: action, when: args.a, decision: ¦ }", undefined],
  ["- { type: action, when: 'f(a, b.¦' }", "f(a, b."],
  ['  "when": "args.¦"', "args.", '\\"'],
  ["  whenever: args.¦", undefined],
  ["description: say when: args.¦", undefined],
  ["- - when: args.¦", "args."],
];

const TOOLS: readonly (readonly [text: string, tool: string | undefined])[] = [
  ["rules:\n  - tool: pay\n    when: ¦", "pay"],
  ["rules:\n  - when: ¦\n    decision: block\n    tool: pay # note\n", "pay"],
  ["rules:\n  - tool: pay\n  - when: ¦\n  - tool: book\n", undefined],
  ["rules:\n  - tool: pay\n    when: a\n  - when: |\n      x\n      ¦\n    tool: 'b k'\n", "b k"],
  ["rules:\n  - tool: pay\n    conditions:\n      rules:\n        - field: ¦\n", "pay"],
  [
    "rules:\n  - conditions:\n      rules:\n        - field: a\n          value: 5\n        - field: ¦\n    tool: pay\n",
    "pay",
  ],
  ["rules:\n  - conditions:\n      rules:\n        - field: ¦\n  - tool: pay\n", undefined],
  ["rules:\n  - { tool: pay, when: ¦ }\n  - { tool: book }\n", "pay"],
  ['rules:\n  - { when: ¦, "tool": "pay"}\n', "pay"],
  ["tool: pay\nrules:\n- tool: book\n  when: ¦\n", "book"],
  ["¦", undefined],
];

describe("the expression around a position", () => {
  for (const [marked, before, quote = '"'] of CASES) {
    it(`is ${JSON.stringify(before)} in ${JSON.stringify(marked)}.`, () => {
      const position = marked.indexOf("¦");
      const found = expressionBefore(marked.replace("¦", ""), position);
      expect(found).to.deep.equal(before === undefined ? undefined : { before, quote });
    });
  }
});

describe("the tool around a position", () => {
  for (const [marked, tool] of TOOLS) {
    it(`is ${tool} in ${JSON.stringify(marked)}.`, () => {
      expect(toolAround(marked.replace("¦", ""), marked.indexOf("¦"))).to.equal(tool);
    });
  }
});
