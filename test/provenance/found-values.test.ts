import { expect } from "chai";
import { findInText, hostsIn } from "../../src/provenance/found-values.ts";

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

  const HOSTS: readonly (readonly [text: string, hosts: readonly string[]])[] = [
    ["see www.example.com, or example.org:80/x", ["example.com", "example.org"]],
    [`https://example.com/${"x".repeat(300)}`, ["example.com"]],
    ["203.0.113.9 and 1.500.000", ["203.0.113.9"]],
    ["[2001:db8::9]:80, at 10:30:15, std::move", ["[2001:db8::9]"]],
    ["*.example.com..example.org", ["example.com", "example.org"]],
    ["bob.b@example.com", []],
    ['"bob b"@example.com', []],
    ["完成。好的 a。b", []],
  ];
  for (const [text, hosts] of HOSTS) {
    it(`have ${hosts.length === 0 ? "no hosts" : `the hosts ${hosts.join(" and ")}`} in ${JSON.stringify(text.slice(0, 40))}.`, () => {
      expect(hostsIn(text)).to.have.members(hosts);
    });
  }

  /** Tells in how many long lines forms are found that hold a value, cut at each of its characters but so many or beside it. */
  function linesWith(value: string, forms: readonly string[], step = 1): { lines: number; found: number[] } {
    const values: ReadonlySet<string>[] = [];
    for (const cut of [4_096, 3_796]) {
      for (let start = cut - value.length - 10; start < cut + 10; start += step) {
        const before = `${"x ".repeat(2_048).slice(0, start - 1)} `;
        values.push(valuesOf(`${before}${value} ${"y ".repeat(400)}`));
      }
    }
    return { lines: values.length, found: forms.map((form) => values.filter((each) => each.has(form)).length) };
  }

  const LONG: readonly (readonly [value: string, whole: string, part: string])[] = [
    ["bob@example.com.au", "bob@example.com.au", "bob@example.com"],
    ["bob.b@example.com", "bob.b@example.com", "b@example.com"],
    ["1500000", "1500000", "1500"],
    ["1,500,000.25", "1500000.25", "1500"],
    ["shop.example.com.au", "shop.example.com.au", "example.com.au"],
    ["shop.example.com.au", "shop.example.com.au", "shop.example.com"],
    ["DE89 3704 0044 0532 0130 00", "de89370400440532013000", "de89370400440532"],
    ["/srv/data/report.csv", "/srv/data/report.csv", "/srv/data"],
    ["/srv/data/report.csv", "/srv/data/report.csv", "/data/report.csv"],
    ['"see you at nine"', "see you at nine", "see you at"],
    ["understatement", "understatement", "understate"],
    ["https://example.com/a/b", "https://example.com/a/b", "https://example.com/a"],
  ];
  for (const [value, whole, part] of LONG) {
    it(`have ${JSON.stringify(whole)} wherever it stands in a long line, and never ${JSON.stringify(part)}.`, () => {
      const { lines, found } = linesWith(value, [whole, part]);
      expect(found).to.deep.equal([lines, 0]);
    });
  }

  it("have the host of a URL that is longer than the overlap of the pieces, and none that is a part of it.", () => {
    const url = `https://shop.example.com/${"evil.com/".repeat(40)}x`;
    const { lines, found } = linesWith(url, ["shop.example.com", "example.com", "shop.example.co", "evil.com"], 5);
    expect(found).to.deep.equal([lines, 0, 0, 0]);
  });

  it("are found in pieces of bounded length.", () => {
    const turns = (text: string): number => [...findInText(text, new Set())].length;
    for (const unit of ["a", "1 ", "a.", '"', "!", "https://a!!!! "]) {
      const text = unit.repeat(1_048_576 / unit.length);
      expect(turns(text), unit).to.be.at.least(text.length / 4_096);
    }
  });
});
