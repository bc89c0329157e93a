import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const SHAPES = [
  ["an MCP tool", { name: "mcp_tool", inputSchema: { type: "object", properties: { a: { type: "string" } } } }],
  [
    "an OpenAI function",
    {
      type: "function",
      function: { name: "openai_tool", parameters: { type: "object", properties: { b: { type: "integer" } } } },
    },
  ],
  [
    "an Anthropic tool",
    { name: "anthropic_tool", input_schema: { type: "object", properties: { c: { type: "boolean" } } } },
  ],
  ["a JSON Schema", { name: "bare_tool", type: "object", properties: { d: { enum: ["x", 5] } } }],
  [
    "a list of 2",
    [
      { name: "one", inputSchema: { type: "object" } },
      { name: "two", inputSchema: { type: "object" } },
    ],
  ],
] as const;

describeInBrowser("the tools", () => {
  let dashboard: Dashboard;
  let page: Page;

  const paste = async (definition: unknown): Promise<void> => {
    const text = typeof definition === "string" ? definition : JSON.stringify(definition, null, 2);
    await page.fill("[name=definition]", text);
  };
  const confirm = (on: Page) => on.locator("[role=dialog] [data-action=confirm]");

  before(async () => {
    dashboard = await openDashboard();
    page = await dashboard.open("/tools");
    await page.getByText("No tool is registered").waitFor();
  });
  after(() => dashboard.close());

  it("are pasted, with what is wrong at its place until it is right.", async () => {
    await page.click("[data-action=paste]");
    await paste('{"name": "pay",');
    await page.locator(".fault-text").getByText("must be JSON").waitFor();
    expect(await confirm(page).isDisabled()).to.equal(true);
    await paste({ name: "pay", inputSchema: { type: "object", properties: { amount: { type: "money" } } } });
    const fault = page.locator("[role=dialog] .fault li").first();
    await fault.waitFor();
    expect(await fault.locator("code").first().innerText()).to.match(/properties\.amount\.type/);
    expect(await fault.getAttribute("data-line")).to.equal("7");
    await fault.locator("[data-action=show-fault]").click();
    const selected = await page.locator("[name=definition]").evaluate((element) => {
      const { value, selectionStart, selectionEnd } = element as HTMLTextAreaElement;
      return value.slice(selectionStart, selectionEnd);
    });
    expect(selected).to.equal('"money"');
    expect(await confirm(page).isDisabled()).to.equal(true);
    await paste({ nothing: 1 });
    await page.getByText("nothing known").waitFor();
    await paste({
      name: "pay",
      inputSchema: { type: "object", properties: { amount: { type: "number", maximum: 50 } } },
    });
    await page.locator("[role=dialog] [data-argument=amount]").waitFor();
    expect(await page.locator("[role=dialog] [data-argument=amount]").innerText()).to.match(
      /amount\s+number\s+at most 50/,
    );
    await confirm(page).click();
    await page.locator('[data-id="pay"]').waitFor();
  });

  for (const [shape, definition] of SHAPES) {
    it(`are recognised in the shape of ${shape}.`, async () => {
      await page.click("[data-action=paste]");
      await paste(definition);
      await page.locator("[data-shape]", { hasText: shape }).waitFor();
      await confirm(page).click();
      await page.locator("[role=dialog]").waitFor({ state: "detached" });
      const [first] = Array.isArray(definition) ? definition : [definition];
      const name = "function" in first ? first.function.name : first.name;
      await page.locator(`[data-id="${name}"]`).waitFor();
    });
  }

  it("show their arguments, who names them and how versions differ.", async () => {
    const { rest } = dashboard.service;
    await rest("POST /v1/enforce/mandates", {
      name: "payments <b>",
      rules: [
        { tool: "pay", decision: "block", conditions: { rules: [{ field: "amount", operator: ">", value: 5 }] } },
      ],
    });
    const properties = { amount: { type: "number", maximum: 80 }, to: { type: "string" } };
    await rest("POST /v1/enforce/tools", {
      name: "pay",
      input_schema: { type: "object", properties, required: ["to"] },
      provenance: { trusted_fields: ["[].iban", "<b>"], session_arguments: ["to"] },
    });
    await page.goto("/tools/pay");
    await page.getByText("payments <b>").waitFor();
    await page.click("[data-action=compare]");
    const difference = page.locator("[data-difference]");
    expect(await difference.locator("[data-argument=amount]").innerText()).to.equal(
      "amount number; at most 50 number; at most 80",
    );
    expect(await difference.locator("[data-argument=to]").innerText()).to.equal("to added string; required");
    const declared = page.locator("[data-provenance]");
    expect(await declared.allInnerTexts()).to.have.length(2);
    expect(await declared.first().locator("code").allInnerTexts()).to.deep.equal(["[].iban", "<b>"]);
    await assertAccessible(page);
  });

  it("open by names with a slash.", async () => {
    const name = "files/read";
    await dashboard.service.rest("POST /v1/enforce/tools", { name, input_schema: { type: "object" } });
    await page.goto(`/tools/${encodeURIComponent(name)}`);
    await page.getByRole("heading", { name }).waitFor();
    await page.getByText("The schema declares no arguments.").waitFor();
  });

  it("are not changed by auditors.", async () => {
    const key = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const shown = await dashboard.open("/tools", { key: key.secret ?? "" });
    await shown.locator('[data-id="pay"]').waitFor();
    expect(await shown.locator("[data-action=paste]").count()).to.equal(0);
    await shown.close();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const shown = await dashboard.open("/tools", appearance);
      await shown.locator('[data-id="pay"]').waitFor();
      await assertColumns(shown, "Tools", ["Name", "Description", "Arguments", "Version", "Registered"]);
      await assertAccessible(shown);
      await screenshot(shown, `tools-${name}`);
      await shown.click("[data-action=paste]");
      await shown.fill("[name=definition]", JSON.stringify(SHAPES[0][1]));
      await shown.locator("[role=dialog] [data-argument=a]").waitFor();
      await assertAccessible(shown);
      await screenshot(shown, `tools-paste-${name}`);
      await shown.goto("/tools/pay");
      await shown.click("[data-action=compare]");
      await assertAccessible(shown);
      await screenshot(shown, `tool-${name}`);
      await shown.close();
    });
  }
});
