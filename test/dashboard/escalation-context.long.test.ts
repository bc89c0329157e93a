import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const HOSTILE = '<img src=x onerror="window.hacked=1">\u202eabc\u200b';

describeInBrowser("the context of an escalation", () => {
  let dashboard: Dashboard;
  let agentId: string;

  const card = (id: string, on: Page) => on.locator(`[data-id="${id}"]`);
  const argument = (path: string, id: string, on: Page) => card(id, on).locator(`[data-argument="${path}"]`);
  const past = (path: string, id: string, on: Page) => argument(path, id, on).locator(".past");

  async function ask(args: object, more: object = {}): Promise<string> {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "invoice.pay",
      tool: "pay_invoice",
      metadata: { arguments: args },
      ...more,
    });
    return String(id);
  }
  const answer = (id: string, resolution: string, note: string) =>
    dashboard.service.rest(`POST /v1/enforce/escalations/${id}/resolve`, { resolution, note });

  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    const { agent } = await rest("POST /v1/enforce/agents", {
      name: "invoice-bot",
      description: "Pays the invoices of suppliers that purchasing has approved",
    });
    agentId = (agent as unknown as { agent_id: string }).agent_id;
    const { department } = await rest("POST /v1/enforce/departments", { name: "accounts payable" });
    const { department_id } = department as unknown as { department_id: string };
    await rest(`PUT /v1/enforce/departments/${department_id}/members/${agentId}`, {});
    const properties = {
      total: { type: "number", description: "what is paid" },
      currency: { type: "string", enum: ["EUR", "USD", "CHF"] },
      to: { type: "string", description: "who is paid" },
      urgent: { type: "boolean" },
      bank: {
        type: "object",
        properties: {
          iban: { type: "string" },
          fee: { type: "number" },
          charges: { type: "string", enum: ["ours", "theirs"] },
        },
      },
      lines: {
        type: "array",
        items: { type: "object", properties: { text: { type: "string" }, price: { type: "number" } } },
      },
      memo: { type: "string" },
    };
    await rest("POST /v1/enforce/tools", { name: "pay_invoice", input_schema: { type: "object", properties } });
    await rest("POST /v1/enforce/mandates", {
      name: "large invoices",
      rules: [
        {
          tool: "pay_invoice",
          decision: "escalate",
          conditions: { rules: [{ field: "total", operator: ">", value: 500 }] },
        },
        {
          tool: "pay_invoice",
          decision: "escalate",
          conditions: { rules: [{ field: "lines[].price", operator: ">", value: 5_000, on_missing: "ignore" }] },
        },
      ],
    });
    for (let turn = 1; turn <= 24; turn++)
      await ask({
        total: turn * 8,
        currency: "EUR",
        to: "ACME GmbH",
        bank: { iban: "DE02", fee: 1 },
        lines: [{ price: turn }],
      });
    for (const total of [600, 601, 602]) {
      const id = await ask({ total, currency: "EUR", to: "acme gmbh" });
      await answer(id, "approved", "known supplier");
    }
    await answer(await ask({ total: 700, currency: "EUR", to: "Shady Ltd" }), "rejected", "not a supplier");
  });
  afterEach(async () => {
    const { escalations } = await dashboard.service.rest("GET /v1/enforce/escalations?status=pending&page_size=100");
    for (const { escalation_id: id } of escalations as unknown as readonly { escalation_id: string }[])
      await dashboard.service.resolve(id, "rejected");
  });
  after(() => dashboard.close());

  /** Arguments of an invoice that fires. */
  const invoice = (more: object = {}) => ({ currency: "EUR", memo: "March", to: "ACME GmbH", total: 768, ...more });

  it("says what the agent is for, what it usually pays, what was answered before, and what happened just before.", async () => {
    const id = await ask(invoice());
    const page = await dashboard.open(`/escalations/${id}`);
    const shown = card(id, page);
    await shown.locator(".purpose", { hasText: "Pays the invoices of suppliers" }).waitFor();
    await shown.locator(".purpose", { hasText: "accounts payable" }).waitFor();
    await past("total", id, page).getByText("usually 8 to 184 EUR; this is 4 × the largest of 24").waitFor();
    const earlier = past("to", id, page);
    await earlier.getByText(/^approved 3 times, last by /).waitFor();
    expect(await earlier.innerText()).to.match(/; never rejected$/);
    await past("memo", id, page).getByText("no earlier answer for it").waitFor();
    expect(await past("currency", id, page).innerText()).to.equal("");
    await earlier.getByRole("link").click();
    await page.locator(".escalation .outcome").getByText("known supplier").waitFor();
    await page.goBack();
    const before = shown.locator(".before li");
    await before.nth(9).waitFor();
    expect(await before.first().innerText())
      .to.contain("invoice.pay")
      .and.contain("to: Shady Ltd, total: 700");
    const rejected = await ask(invoice({ to: "shady ltd" }));
    await page.goto(`/escalations/${rejected}`);
    await past("to", rejected, page)
      .getByText(/^rejected once, last by .*; never approved$/)
      .waitFor();
  });

  it("puts the argument that fired first and marks it.", async () => {
    const id = await ask(invoice({ bank: { iban: "DE02", fee: 9 } }));
    const page = await dashboard.open(`/escalations/${id}`);
    await past("bank.fee", id, page).getByText("usually 1; this is 9 × the largest of 24").waitFor();
    const paths = await card(id, page)
      .locator("[data-argument]")
      .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-argument")));
    expect(paths[0]).to.equal("total");
    expect(paths).to.have.members(["total", "bank.fee", "bank.iban", "currency", "memo", "to"]);
    await argument("total", id, page).getByText("fired", { exact: true }).waitFor();
    expect(await card(id, page).getByText("fired", { exact: true }).count()).to.equal(1);
  });

  it("shows objects in lists as tables, with what is more within reach.", async () => {
    const lines = Array.from({ length: 60 }, (_, index) => ({
      price: index === 7 ? 9_000 : index,
      text: `line ${index}`,
      ...Object.fromEntries(Array.from({ length: 8 }, (__, column) => [`c${column}`, column])),
    }));
    const id = await ask(invoice({ total: 1, lines }));
    const page = await dashboard.open(`/escalations/${id}`);
    const table = argument("lines", id, page).getByRole("table");
    await table.waitFor();
    expect(await table.getByRole("columnheader").count()).to.equal(8);
    expect(await table.getByRole("columnheader").first().innerText()).to.match(/^price\s*fired$/);
    expect(await table.getByRole("row").count()).to.equal(51);
    await argument("lines", id, page).locator(".past", { hasText: "375 × the largest of 24" }).waitFor();
    await argument("lines", id, page).getByText("fired", { exact: true }).first().waitFor();
    await argument("lines", id, page).locator("[data-action=more-rows]").click();
    expect(await table.getByRole("row").count()).to.equal(61);
    await screenshot(page, "context-table");
    await argument("lines", id, page).locator("[data-action=as-tree]").click();
    await argument("lines", id, page).getByText("c7", { exact: true }).first().waitFor();
  });

  it("folds long values, so that the answers stay in view.", async () => {
    const memo = Array.from({ length: 80 }, (_, index) => `paragraph ${index} of a long memo`).join("\n");
    const id = await ask(
      invoice({ memo, notes: Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`n${at}`, at])) }),
    );
    const page = await dashboard.open(`/escalations/${id}`);
    const approve = card(id, page).locator("[data-action=approve]");
    await approve.waitFor();
    const isInView = () =>
      approve.evaluate((button) => {
        const { top, bottom } = button.getBoundingClientRect();
        return top >= 0 && bottom <= window.innerHeight;
      });
    expect(await isInView()).to.equal(true);
    const folded = argument("memo", id, page);
    const heightOf = async () => (await folded.boundingBox())?.height ?? 0;
    const height = await heightOf();
    await folded.locator("[data-action=show-all]").click();
    expect(await heightOf()).to.be.above(height * 4);
    await folded.locator("[data-action=show-all]").click();
    expect(await heightOf()).to.equal(height);
    expect(await argument("notes", id, page).locator("[data-action=show-all]").count()).to.equal(1);
    expect(await argument("to", id, page).locator("[data-action=show-all]").count()).to.equal(0);
  });

  it("sends the note with the approval, and keeps it for a rejection or an edit.", async () => {
    const id = await ask(invoice());
    const page = await dashboard.open(`/escalations/${id}`);
    await card(id, page).locator("[name=approval-note]").fill(" as agreed with a Purchaser ");
    await card(id, page).locator("[data-action=reject]").click();
    expect(await page.inputValue("[role=dialog] [name=note]")).to.contain("as agreed");
    await page.keyboard.press("Escape");
    await card(id, page).locator("[data-action=edit]").click();
    expect(await page.inputValue("[role=dialog] [name=note]")).to.contain("as agreed");
    await page.keyboard.press("Escape");
    await card(id, page).locator("[data-action=approve]").click();
    await page.locator(".escalation .outcome").getByText("as agreed with a Purchaser").waitFor();
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${id}`);
    expect(escalation).to.include({ status: "approved", note: "as agreed with a Purchaser" });
  });

  it("offers the values that the schema lists as choices of an edit.", async () => {
    const id = await ask(invoice({ currency: "GBP", bank: { iban: "DE02" } }));
    const page = await dashboard.open(`/escalations/${id}`);
    await argument("total", id, page).getByText("number · what is paid").waitFor();
    await card(id, page).locator("[data-action=edit]").click();
    // The argument that fired comes first, and has the focus.
    await page.locator('[name="argument.total"]:focus').waitFor();
    const currency = page.locator('select[name="argument.currency"]');
    expect(await currency.locator("option").allInnerTexts()).to.deep.equal([
      "GBP (not in the schema)",
      "EUR",
      "USD",
      "CHF",
    ]);
    await currency.selectOption("CHF");
    await page.locator('select[name="argument.urgent"]').selectOption("true");
    await page.locator('select[name="argument.bank.charges"]').selectOption("theirs");
    await page.locator('[name="argument.total"]').fill("510");
    await page.click("[data-action=review]");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator(".badge.is-good", { hasText: "approved with other arguments" }).waitFor();
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${id}`);
    const { edited_arguments: edited } = escalation as unknown as { edited_arguments: object };
    expect(edited).to.deep.include({
      currency: "CHF",
      urgent: true,
      total: 510,
      bank: { charges: "theirs", iban: "DE02" },
    });
  });

  for (const { where, width } of [
    { where: "on a page of its own", width: 1280 },
    { where: "on a page of its own", width: 390 },
    { where: "in the queue", width: 1440 },
  ]) {
    it(`moves nothing when it arrives later than the card (${where}, ${width} px).`, async () => {
      const id = await ask(invoice({ bank: { iban: "DE02", fee: 9 }, lines: [{ text: "a", price: 3 }] }));
      const page = await dashboard.open("/limits", { width });
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      await page.route(/\/(GetEscalationContext|GetAgent|GetAgentHistory|GetTool|ListDepartments)\b/, async (route) => {
        await released;
        await route.continue();
      });
      await page.goto(where === "in the queue" ? "/escalations" : `/escalations/${id}`);
      await page.locator("[data-argument=total]").waitFor();
      const places = () =>
        page.locator("[data-argument], [data-action=approve]").evaluateAll((elements) =>
          elements.map((element) => {
            const { x, y, height } = element.getBoundingClientRect();
            return `${element.getAttribute("data-argument") ?? "approve"} at ${x} ${y}, ${height} high`;
          }),
        );
      const before = (await places()).sort();
      release();
      await page.locator(".past", { hasText: "4 × the largest of 24" }).waitFor();
      await page.locator(".purpose", { hasText: "accounts payable" }).waitFor();
      await page.getByRole("img", { name: /trust over the last/ }).waitFor();
      await page.getByText("number · what is paid").waitFor();
      expect((await places()).sort()).to.deep.equal(before);
    });
  }

  it("is there for auditors, who cannot write a note.", async () => {
    const { secret } = await dashboard.service.rest("POST /v1/admin/keys", { name: "auditor", role: "auditor" });
    const id = await ask(invoice());
    const page = await dashboard.open(`/escalations/${id}`, { key: String(secret) });
    await past("total", id, page).getByText("4 × the largest of 24").waitFor();
    expect(await page.locator("[name=approval-note]").count()).to.equal(0);
  });

  it("says why it cannot be read, and leaves the card usable.", async () => {
    const id = await ask(invoice());
    const page = await dashboard.open("/limits");
    await page.route("**/GetEscalationContext*", (route) =>
      route.fulfill({
        status: 429,
        contentType: "application/json",
        body: '{"code":"resource_exhausted","message":"too busy"}',
      }),
    );
    await page.goto(`/escalations/${id}`);
    await card(id, page).locator(".around [role=alert]").getByText("too busy").waitFor();
    await card(id, page).locator("[data-action=approve]").click();
    await page.locator(".escalation .outcome").getByText("approved", { exact: true }).waitFor();
  });

  it("shows hostile text inert.", async () => {
    const { agent } = await dashboard.service.rest("POST /v1/enforce/agents", {
      name: "stranger",
      description: HOSTILE,
    });
    const by = { agent_id: (agent as unknown as { agent_id: string }).agent_id };
    const currency = "<b>\u202eE";
    await ask({ total: 1, currency, to: HOSTILE, [HOSTILE]: 1 }, by);
    const earlier = await ask({ total: 900, currency, to: HOSTILE }, by);
    await answer(earlier, "approved", HOSTILE);
    const id = await ask({ total: 901, currency, to: HOSTILE, lines: [{ [HOSTILE]: HOSTILE }] }, by);
    const page = await dashboard.open(`/escalations/${id}`);
    await past("to", id, page)
      .getByText(/^approved once, last by/)
      .waitFor();
    await past("total", id, page).locator(".unseen").first().waitFor();
    await card(id, page).locator(".purpose .unseen").first().waitFor();
    await card(id, page).locator(".before-arguments .unseen").first().waitFor();
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    await screenshot(page, "context-hostile");
  });

  for (const width of [1440, 1100]) {
    it(`is accessible beside the queue (${width} px).`, async () => {
      const lines = [
        { text: "Pallets", price: 12.5, count: 40 },
        { text: "Insurance", price: 268, count: 1 },
      ];
      await ask(
        invoice({
          lines,
          cc: ["a@example.com", "b@example.com"],
          total: 900,
          to: "Shady Ltd",
          bank: { iban: "DE02", fee: 1 },
        }),
      );
      const page = await dashboard.open("/escalations", { width });
      await page.locator(".past", { hasText: "the largest of 24" }).first().waitFor();
      await page.locator(".before li").nth(2).waitFor();
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `context-queue-${width}`);
    });
  }

  for (const { name, ...appearance } of [
    ...APPEARANCES,
    { name: "phone-dark", colorScheme: "dark", width: 390 } as const,
  ]) {
    it(`is accessible (${name}).`, async () => {
      const memo = "Freight for the second half of March, as agreed by telephone with the warehouse. ".repeat(20);
      const lines = [
        { text: "Pallets", price: 12.5, count: 40 },
        { text: "Insurance", price: 268, count: 1 },
      ];
      const id = await ask(invoice({ memo, lines, bank: { iban: "DE02 1203 0000 0000 2020 51", fee: 1 } }));
      const page = await dashboard.open(`/escalations/${id}`, appearance);
      await past("total", id, page).getByText("4 × the largest of 24").waitFor();
      await card(id, page).locator(".before li").nth(9).waitFor();
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `context-${name}`);
      await card(id, page).locator("[data-action=edit]").click();
      await page.locator('select[name="argument.currency"]').waitFor();
      await assertAccessible(page);
      await screenshot(page, `context-edit-${name}`);
    });
  }
});
