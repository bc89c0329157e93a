import { expect } from "chai";
import { matchesTemplate } from "../../src/gateway/uri-template.ts";

const CASES: readonly (readonly [template: string, matching: readonly string[], others: readonly string[]])[] = [
  ["file:///notes.txt", ["file:///notes.txt"], ["file:///notes.txt2", "file:///notes", ""]],
  ["db://{table}/{id}", ["db://a/1", "db://a%2Fb/1"], ["db://a", "db:///1", "db://a/1/2", "db://a/1?x", "xdb://a/1"]],
  ["file:///{+path}", ["file:///a", "file:///a/b?c#d"], ["file:///", "file://a"]],
  ["a{#section}", ["a", "a#b/c"], ["ab", "a#"]],
  ["x{/parts*}", ["x", "x/a", "x/a/b"], ["x/", "xa", "x/a?b"]],
  ["q{?a,b}", ["q", "q?a=1&b=2"], ["q?", "qa", "q?a=1#b"]],
  ["q?a=1{&b}", ["q?a=1", "q?a=1&b=2"], ["q?a=12"]],
  ["f{.format}", ["f", "f.json"], ["f.", "f.a/b"]],
  ["{a}{b}", ["xy"], ["x", "x/y"]],
  ["{unclosed", ["{unclosed"], ["x"]],
];

describe("a URI template", () => {
  for (const [template, matching, others] of CASES) {
    it(`\`${template}\` matches the URIs that it expands to.`, () => {
      for (const uri of matching) expect(matchesTemplate(template, uri), uri).to.equal(true);
      for (const uri of others) expect(matchesTemplate(template, uri), uri).to.equal(false);
    });
  }

  it("takes no time that grows with the ways to read a URI.", () => {
    // A regular expression of the same template tries some 2,000^50 ways.
    const template = `${"{+a}".repeat(50)}!`;
    expect(matchesTemplate(template, "x".repeat(2_000))).to.equal(false);
    expect(matchesTemplate(template, `${"x".repeat(2_000)}!`)).to.equal(true);
    expect(matchesTemplate("{a}".repeat(1_000), "x")).to.equal(false);
  });
});
