import { expect } from "chai";
import { approvedBy, type ToldApprovals } from "../../src/explain/approvals.ts";
import { plainText } from "../../src/explain/sentence.ts";

const FINANCE = { groups: ["finance"], atLeast: 2, given: 2 };
const LEGAL = { groups: ["legal"], atLeast: 1, given: 1 };
const [ADA, BEN] = [
  { name: "Ada", groups: ["finance"] },
  { name: "Ben", groups: ["finance", "legal"] },
];

const CASES: readonly (readonly [what: string, told: ToldApprovals, sentence: string])[] = [
  [
    "two people and two demands",
    { needs: [FINANCE, LEGAL], approvals: [ADA, BEN] },
    "Approved by `Ada` (`finance`) and `Ben` (`finance`, `legal`): 2 of 2 of `finance`, 1 of 1 of `legal`.",
  ],
  [
    "one of several people",
    {
      needs: [
        { ...FINANCE, given: 1 },
        { ...LEGAL, given: 0 },
      ],
      approvals: [ADA],
    },
    "Approved by `Ada` (`finance`): 1 of 2 of `finance`, 0 of 1 of `legal`.",
  ],
  [
    "more people than are needed",
    { needs: [LEGAL], approvals: [ADA, BEN, { name: "key_1", groups: [] }].map((each) => ({ ...each, groups: [] })) },
    "Approved by `Ada`, `Ben` and `key_1`: 1 of 1 of `legal`.",
  ],
  [
    "a demand that any operator meets, and one of two groups",
    {
      needs: [
        { groups: [], atLeast: 1, given: 3 },
        { ...LEGAL, groups: ["board", "legal"] },
      ],
      approvals: [ADA],
    },
    "Approved by `Ada` (`finance`): 1 of 1 of the operators, 1 of 1 of `board` or `legal`.",
  ],
  [
    "nobody",
    { needs: [LEGAL].map((need) => ({ ...need, given: 0 })), approvals: [] },
    "Approved by nobody yet: 0 of 1 of `legal`.",
  ],
];

describe("approvals in a sentence", () => {
  for (const [what, told, sentence] of CASES) {
    it(`tell of ${what}.`, () => {
      expect(plainText(approvedBy(told))).to.equal(sentence);
    });
  }

  it("quote names and groups, which come from elsewhere.", () => {
    const name = "Ada: 9 of 9 of everybody. <b>";
    const parts = approvedBy({ needs: [LEGAL], approvals: [{ name, groups: [name] }] });
    expect(parts.filter((part) => part !== ", ").filter((part) => typeof part !== "string")).to.deep.equal([
      { quoted: name },
      { quoted: name },
      { quoted: "legal" },
    ]);
  });
});
