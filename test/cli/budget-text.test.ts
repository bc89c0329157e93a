import { expect } from "chai";
import { budgetText } from "../../src/cli/budget-text.ts";

const SEALED = {
  mandate_id: "mnd_1",
  rule: "rules[0]",
  scope: "workspace",
  group: "wsp_1",
  members: 3,
  window: 86_400,
  budget: { currency: "EUR", limit: 100, total: 72.5, reserved: 12.5, captured: 60, remaining: 27.5 },
};
const TEXT = "72.5 of 100 EUR in 86400 s for workspace wsp_1, 27.5 left (12.5 reserved, 60 paid)";

describe("the text of a budget", () => {
  it("tells what is used, what is left, and when the same amount fits once more.", () => {
    expect(budgetText(SEALED)).to.equal(TEXT);
    const resets_at = "2026-11-27T14:05:10.001Z";
    expect(budgetText({ ...SEALED, resets_at })).to.equal(`${TEXT}; the same amount fits from ${resets_at}`);
  });

  it("is the same of an answer of the service, whose absent members are null.", () => {
    expect(budgetText({ ...SEALED, kind: "budget", count: 0, limit: 0, remaining: 0, resets_at: null })).to.equal(TEXT);
  });

  it("does not exist for a limit that counts actions.", () => {
    expect(budgetText({ ...SEALED, budget: null })).to.equal(undefined);
    const { budget: _, ...counted } = SEALED;
    expect(budgetText({ ...counted, count: 1, limit: 5 })).to.equal(undefined);
  });
});
