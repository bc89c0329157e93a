import { isDeepStrictEqual } from "node:util";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { until } from "../support/harness.ts";
import { assertAccessible, type Dashboard, describeInBrowser, openDashboard, screenshot } from "./browser.ts";

const textWith = (when: string): string =>
  `name: orders\nrules:\n  - type: action\n    decision: block\n    when: ${when}\n    tool: order\n`;

/** Texts of one wrong member in every style of YAML, with the line on which it stands. */
const WRONG: readonly (readonly [style: string, when: string, line: number])[] = [
  ["plain", "args.total > 5 && args.totla < 9", 5],
  ["plain over two lines", "args.total > 5 &&\n      args.totla < 9", 6],
  ["quoted", "'fold(args.note) != \"it''s\" && args.totla < 9'", 5],
  ["quoted twice", '"fold(args.note) != \\"a\\" && args.totla < 9"', 5],
  ["folded", ">-\n      args.total > 5\n      && args.totla < 9", 7],
  ["a block", "|\n      args.total > 5\n        && args.totla < 9\n", 7],
];

describeInBrowser("the editor of expressions", () => {
  let dashboard: Dashboard;
  let page: Page;

  const editor = () => page.locator(".cm-content");
  const options = () => page.locator(".cm-tooltip-autocomplete li");
  const write = async (text: string): Promise<void> => {
    await editor().click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(text);
    await page.keyboard.press("Escape");
  };
  /** Writes an expression, and types at its end. */
  const type = async (when: string, typed: string): Promise<void> => {
    await write(textWith(when));
    await editor().locator(".cm-line", { hasText: "when:" }).click();
    await page.keyboard.press("End");
    for (let back = when.length - when.trimEnd().length; back > 0; back--) await page.keyboard.press("End");
    await page.keyboard.type(typed);
  };
  const lineOf = (text: string) => editor().locator(".cm-line", { hasText: text }).first().innerText();
  const labels = () => page.locator(".cm-tooltip-autocomplete .cm-completionLabel").allInnerTexts();
  /** Waits for the list, which opens with what the text before the last key allowed, to narrow. */
  const narrowedTo = (expected: readonly string[]) =>
    until(async () => isDeepStrictEqual(await labels(), [...expected]));

  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    const line = { type: "object", properties: { price: { type: "number" }, pieces: { type: "integer" } } };
    const properties = {
      total: { type: "number", description: "with taxes" },
      note: { type: "string" },
      zone: { type: "string", enum: ["home", "abroad"] },
      lines: { type: "array", items: line },
    };
    await rest("POST /v1/enforce/tools", { name: "order", input_schema: { type: "object", properties } });
    await rest("PUT /v1/enforce/lists/blocked-payees", { kind: "text", values: ["ACME"] });
    page = await dashboard.open("/mandates");
    await page.click("[data-action=new]");
    await editor().waitFor();
  });
  after(() => dashboard.close());

  it("offers variables and functions with a sentence on each, and writes the call.", async () => {
    await type("", "su");
    await options().filter({ hasText: "sum" }).waitFor();
    expect(await options().filter({ hasText: "sum" }).innerText()).to.equal("sum(list) → number");
    await page.locator(".cm-completionInfo", { hasText: "total of a list of numbers" }).waitFor();
    await screenshot(page, "when-completion-function");
    await page.keyboard.press("Enter");
    await page.keyboard.type("args.");
    await options().filter({ hasText: "lines" }).waitFor();
    expect((await labels()).slice(0, 3)).to.deep.equal(["lines", "note", "total"]);
    await page.keyboard.type("li");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    expect(await lineOf("when:")).to.equal("    when: sum(args.lines)");
    await type("", "agent.t");
    await narrowedTo(["trust"]);
  });

  it("offers the members of a list's elements within a macro, and the variable of it.", async () => {
    await type("args.lines.ex", "i");
    await options().filter({ hasText: "exists" }).first().waitFor();
    await screenshot(page, "when-completion-macro");
    await options().filter({ hasText: "exists" }).first().click();
    await page.keyboard.type("line");
    await page.keyboard.press("Tab");
    await page.keyboard.type("line.p");
    await options().filter({ hasText: "pieces" }).waitFor();
    expect(await labels()).to.deep.equal(["pieces", "price"]);
    // The editor ignores keys in the first moment of a list, so that nobody chooses what was not seen.
    await options().filter({ hasText: "pieces" }).click();
    await page.keyboard.type(" > 5");
    expect(await lineOf("when:")).to.equal("    when: args.lines.exists(line, line.pieces > 5)");
    await page.getByText("The text compiles.").waitFor();
  });

  it("offers the names of lists, also within quotes of YAML.", async () => {
    for (const when of ["in_list(args.note, ", '"in_list(args.note, ']) {
      await type(when, when.startsWith('"') ? '\\"' : '"');
      await options().filter({ hasText: "blocked-payees" }).waitFor();
      expect(await labels()).to.deep.equal(["blocked-payees"]);
      await options().first().click();
      expect(await lineOf("when:")).to.match(/"blocked-payees$/);
      await page.keyboard.press("Escape");
    }
    await type('"in_lis', "t");
    await options().filter({ hasText: "in_list" }).click();
    expect(await lineOf("when:")).to.equal('    when: "in_list(text, \\"name\\")');
    await page.keyboard.press("Escape");
  });

  it("offers the values that the schema lists where one is compared.", async () => {
    await type("args.zone in [", '"');
    await options().filter({ hasText: "abroad" }).waitFor();
    expect(await labels()).to.deep.equal(["home", "abroad"]);
    await options().filter({ hasText: "abroad" }).click();
    expect(await lineOf("when:")).to.equal('    when: args.zone in ["abroad');
    await page.keyboard.press("Escape");
  });

  for (const [style, when, line] of WRONG) {
    it(`marks the member at fault, in an expression that is ${style}.`, async () => {
      await write(textWith(when));
      const fault = page.locator(".text-faults li", { hasText: "totla" });
      await fault.waitFor();
      expect(await fault.getAttribute("data-line")).to.equal(String(line));
      expect(await fault.innerText()).to.match(/^line \d+: the tool's schema has no such member/);
      expect(await page.locator(".cm-lintRange-error").allInnerTexts()).to.deep.equal(["totla"]);
      if (style === "folded") await screenshot(page, "when-fault");
      await write(textWith(when.replace("totla", "total")));
      await page.getByText("The text compiles.").waitFor();
    });
  }

  it("marks a warning at the comparison that it is about.", async () => {
    await write(textWith('>-\n      args.total > 5 &&\n      args.note == "x"'));
    await page.locator('.text-faults .is-wait[data-line="7"]', { hasText: "another spelling" }).waitFor();
    expect(await page.locator(".cm-lintRange-warning").allInnerTexts()).to.deep.equal(["=="]);
    await assertAccessible(page);
    await screenshot(page, "when-warning");
  });
});
