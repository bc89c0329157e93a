import { expect } from "chai";
import { findInText } from "../../src/provenance/found-values.ts";

function valuesOf(text: string): ReadonlySet<string> {
  const values = new Set<string>();
  for (const _ of findInText(text, values));
  return values;
}

describe("the values of a text", () => {
  const NUMBERS: readonly (readonly [text: string, numbers: readonly string[]])[] = [
    ["I pay 50.", ["50"]],
    ["50, then 7; and (8)", ["50", "7", "8"]],
    ["10, 20, 30", ["10", "20", "30"]],
    ["5 - 10", ["5", "10"]],
    ["-5 and +6", ["-5", "6"]],
    ["€1,500.00 or $20.5", ["1500", "20.5"]],
    ["in 2024 500 came", ["2024", "500"]],
    ["take 12 eggs, 3 times 45", ["12", "3", "45"]],
    ["call 12 34", ["12", "34"]],
    ["Total: 9%", ["9"]],
    ["Pay 12,50 EUR", []],
    ["Pay 1 500 EUR", []],
    ["Pay 1\u00a0500,00 EUR", []],
    ["Pay 1’500.00 CHF", []],
    ["Pay 12 500 000 EUR", []],
    ["1.500.000 and 1,500,00", []],
    ["on 2024-05-01 at 10:30", []],
    ["on 1/2/2024 or 1.2.2024", []],
    ["from 203.0.113.9", []],
  ];
  for (const [text, numbers] of NUMBERS) {
    it(`have ${numbers.length === 0 ? "no numbers" : `the numbers ${numbers.join(" and ")}`} in ${JSON.stringify(text)}.`, () => {
      // Six digits and more may be an account, whatever separates them, and `500.00` the name of a file.
      const found = [...valuesOf(text)].filter((form) => form === String(Number(form)) && Number(form) < 100_000);
      expect(found).to.have.members(numbers);
    });
  }
});
