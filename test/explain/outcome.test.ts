import { expect } from "chai";
import { type ActionEnd, endSentences } from "../../src/explain/outcome.ts";
import { plainText } from "../../src/explain/sentence.ts";

const AT = "2026-11-27T08:00:00.000Z";

describe("the end of an action in sentences", () => {
  const CASES: readonly (readonly [string, ActionEnd, readonly string[]])[] = [
    [
      "a pending one with its time",
      { status: "pending", dueAt: AT, reserved: "€5.00" },
      [
        `Nobody has reported yet how the action ended; from ${AT} on its outcome is unknown.`,
        "It reserved `€5.00`, which stays reserved until then.",
      ],
    ],
    [
      "an unknown one",
      { status: "unknown", reportedAt: AT, reportedBy: "timeout" },
      [
        `Nobody reported in time how the action ended: its outcome is unknown since ${AT}.`,
        "The action may have been done. An operator settles it.",
      ],
    ],
    [
      "a success with the amount it came to and what it had reserved",
      { status: "succeeded", amount: "€480.00", reserved: "€500.50", reportedAt: AT, reportedBy: "first admin" },
      [
        `\`first admin\` reported at ${AT} that the action was done and came to \`€480.00\`.`,
        "It had reserved `€500.50`.",
      ],
    ],
    [
      "a success that names no amount",
      { status: "succeeded", reserved: "€500.50", reportedAt: AT, reportedBy: "key_1" },
      [`\`key_1\` reported at ${AT} that the action was done.`, "It had reserved `€500.50`."],
    ],
    [
      "a success of exactly what was reserved",
      { status: "succeeded", amount: "€5.00", reserved: "€5.00", reportedAt: AT, reportedBy: "key_1" },
      [`\`key_1\` reported at ${AT} that the action was done and came to \`€5.00\`.`],
    ],
    [
      "a failure that the agent alone reported",
      { status: "failed", reportedAt: AT, reportedBy: "key_1", awaitsConfirmation: true },
      [
        `\`key_1\` reported at ${AT} that the action was tried and failed.`,
        "A budget keeps what was reserved, because the agent alone reported that: the gateway or an operator confirms or corrects it.",
      ],
    ],
    [
      "a failure with its cause",
      { status: "failed", error: "no answer", reportedAt: AT, reportedBy: "key_1" },
      [`\`key_1\` reported at ${AT} that the action was tried and failed: \`no answer\`.`],
    ],
    [
      "a cancelled one that an operator settled",
      { status: "cancelled", reportedAt: AT, reportedBy: "ann@example.com", unknownAt: "2026-11-27T07:00:00.000Z" },
      [
        `\`ann@example.com\` reported at ${AT} that the action was not tried.`,
        "Its outcome had been unknown since 2026-11-27T07:00:00.000Z before.",
      ],
    ],
  ];
  for (const [name, end, texts] of CASES) {
    it(`tells ${name}.`, () => expect(endSentences(end).map(plainText)).to.deep.equal(texts));
  }
});
