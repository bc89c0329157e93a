import { expect } from "chai";
import { type Budget, moneyText, restOfBudget, shareOfBudget, usedOfBudget } from "../../src/dashboard/kit/money.ts";

const budget = (limit: number, captured: number, reserved: number, currency = "EUR"): Budget => {
  const total = captured + reserved;
  return { currency, limit, total, reserved, captured, remaining: Math.max(0, limit - total) };
};

describe("money on the dashboard", () => {
  const TEXTS: readonly (readonly [number, string, string])[] = [
    [1_240.5, "EUR", "€1,240.50"],
    [1_240.5, "eur", "€1,240.50"],
    [0.000001, "EUR", "€0.000001"],
    [1_500, "JPY", "¥1,500"],
    [5, "CHF", "CHF 5.00"],
    [5, "XQZ", "XQZ 5.00"],
    [1_000.25, "POINTS", "1,000.25 POINTS"],
    [5, "E1R", "5 E1R"],
    [999_999_999, "USD", "$999,999,999.00"],
  ];
  for (const [amount, currency, text] of TEXTS) {
    it(`writes ${amount} ${currency} as ${text}.`, () => expect(moneyText(amount, currency)).to.equal(text));
  }

  it("says what a budget has left, that nothing is left, and by how much it is exceeded.", () => {
    expect(restOfBudget(budget(1_000, 320, 80))).to.equal("€600.00 of €1,000.00 left");
    expect(restOfBudget(budget(1_000, 1_000, 0))).to.equal("all of €1,000.00 used");
    expect(restOfBudget(budget(1, 0.7, 0.4))).to.equal("€0.10 over €1.00");
  });

  it("says what was captured and what is reserved.", () => {
    expect(usedOfBudget(budget(1_000, 320, 80))).to.equal("€320.00 captured, €80.00 reserved");
  });

  it("is at most all of a budget, and all of one that admits nothing.", () => {
    expect(shareOfBudget(budget(1_000, 0, 0), 250)).to.equal(0.25);
    expect(shareOfBudget(budget(1_000, 0, 0), 2_500)).to.equal(1);
    expect(shareOfBudget(budget(0, 0, 0), 0)).to.equal(1);
  });
});
