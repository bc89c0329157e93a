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

const TEXT = `name: payments
rules:
  - tool: send_payment
    decision: escalate
    conditions:
      rules:
        - field: amount
          operator: ">"
          value: 500
`;
const HOSTILE = 'evil\u00a0<img src=x onerror="window.hacked=1">';

describeInBrowser("the mandates", () => {
  let dashboard: Dashboard;
  let page: Page;
  let agentId: string;
  let mandateId: string;

  const editor = (on = page) => on.locator(".cm-content");
  /** Replaces the editor's text, without what completion would add. */
  const write = async (text: string, on = page): Promise<void> => {
    await editor(on).click();
    await on.keyboard.press("ControlOrMeta+a");
    await on.keyboard.insertText(text);
  };
  const textIn = (on = page) =>
    editor(on).evaluate((element) =>
      [...element.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"),
    );

  /** Waits until the editor's text matches; the verdict below it may still be that of the text before. */
  const untilText = (pattern: RegExp) =>
    page.waitForFunction(({ source }) => {
      const lines = [...document.querySelectorAll(".cm-content .cm-line")].map((line) => line.textContent);
      return new RegExp(source).test(lines.join("\n"));
    }, pattern);

  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    agentId = await dashboard.service.agent("payer");
    const properties = {
      amount: { type: "number" },
      currency: { type: "string" },
      to: { type: "string" },
      method: { type: "string", enum: ["card", "wire", "cash"], description: "how it is paid" },
    };
    await rest("POST /v1/enforce/tools", { name: "send_payment", input_schema: { type: "object", properties } });
    for (const amount of [5, 600, 700]) {
      await rest("POST /v1/enforce/intercept", {
        agent_id: agentId,
        action_type: "payment.send",
        tool: "send_payment",
        metadata: { arguments: { amount, to: "ACME" } },
      });
    }
    page = await dashboard.open("/mandates");
    await page.getByText("No mandate is in force").waitFor();
  });
  after(() => dashboard.close());

  it("are written with faults at their lines, until the text compiles.", async () => {
    await page.click("[data-action=new]");
    await editor().waitFor();
    await write(TEXT.replace("field: amount", "field: amuont"));
    const fault = page.locator(".text-faults li");
    await fault.first().waitFor();
    expect(await fault.first().getAttribute("data-line")).to.equal("7");
    expect(await fault.first().innerText()).to.match(/amuont.*amount/s);
    expect(await page.locator(".cm-lintRange-error").first().innerText()).to.equal("amuont");
    expect(await page.locator("[data-action=publish]").isDisabled()).to.equal(true);
    await write(TEXT.replace("escalate", "forbid"));
    await page.locator('.text-faults [data-line="4"]', { hasText: "must be one of" }).waitFor();
    await write("name: [");
    await page.locator(".text-faults li").first().waitFor();
    await write(TEXT);
    await page.getByText("The text compiles.").waitFor();
    await page.locator("[data-action=publish]:enabled").waitFor();
  });

  it("complete the arguments of the rule's tool, the tools and the words.", async () => {
    await write(TEXT.replace("field: amount", "field: "));
    await page
      .getByText(/field: $/m)
      .first()
      .waitFor({ state: "attached" });
    await editor().locator(".cm-line", { hasText: "field:" }).click();
    await page.keyboard.press("End");
    await page.keyboard.press("Control+ ");
    await page.locator(".cm-tooltip-autocomplete li", { hasText: "amount" }).waitFor();
    expect(await page.locator(".cm-tooltip-autocomplete li").allInnerTexts()).to.deep.equal([
      "amountnumber",
      "currencystring",
      "methodstring",
      "tostring",
    ]);
    await page.keyboard.press("Escape");
    await editor().locator(".cm-line", { hasText: "decision:" }).click();
    await page.keyboard.press("End");
    for (let count = 0; count < "escalate".length; count++) await page.keyboard.press("Backspace");
    await page.keyboard.press("Control+ ");
    await page.locator(".cm-tooltip-autocomplete li", { hasText: "block" }).waitFor();
    await page.keyboard.press("Escape");
    await write(TEXT);
    await page.getByText("The text compiles.").waitFor();
  });

  it("take a rule from a form, which leaves the rest as it is.", async () => {
    await write(`# Kept\n${TEXT}`);
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=kind]", "velocity");
    await page.fill("[name=types]", "payment.*, refund.*");
    await page.fill("[name=max_count]", "20");
    await page.click("[role=dialog] [data-action=confirm]");
    await untilText(/max_count: 20/);
    const text = await textIn();
    expect(text)
      .to.match(/^# Kept\nname: payments\n/)
      .and.contain("- refund.*");
    await page.getByText("The text compiles.").waitFor();
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=field]", "to");
    await page.selectOption("[name=operator]", "in");
    await page.fill("[name=value]", "ACME, B");
    await page.click("[role=dialog] [data-action=confirm]");
    await untilText(/operator: in\n\s+value:\n\s+- ACME\n\s+- B/);
    await page.getByText("The text compiles.").waitFor();
    await write(TEXT);
    await page.getByText("The text compiles.").waitFor();
  });

  it("take a condition from a form that the tool's schema drives.", async () => {
    const operators = () => page.locator("[name=operator] option").allInnerTexts();
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=field]", "amount");
    expect(await operators())
      .to.include("between")
      .and.not.include("starts_with");
    await page.selectOption("[name=operator]", "between");
    await page.fill("[name=value]", "1");
    await page.fill("[name=to]", "many");
    await confirm.click();
    await page
      .locator(".field", { has: page.locator("[name=to]") })
      .getByText("must be a number")
      .waitFor();
    await page.fill("[name=to]", "5");
    await confirm.click();
    await untilText(/operator: between\n\s+value:\n\s+- 1\n\s+- 5/);
    await page.getByText("The text compiles.").waitFor();
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=field]", "method");
    await page.getByText("how it is paid").waitFor();
    expect(await operators())
      .to.include("starts_with")
      .and.not.include(">");
    expect(await page.locator("[name=value] option").allInnerTexts()).to.deep.equal(["card", "wire", "cash"]);
    await page.selectOption("[name=operator]", "in");
    await page.getByLabel("wire").check();
    await page.getByLabel("cash").check();
    await assertAccessible(page);
    await confirm.click();
    await untilText(/field: method\n\s+operator: in\n\s+value:\n\s+- wire\n\s+- cash/);
    await page.getByText("The text compiles.").waitFor();
    await write(TEXT);
    await page.getByText("The text compiles.").waitFor();
  });

  it("take a budget from the form, whose amount is a number of the tool's schema.", async () => {
    const confirm = page.locator("[role=dialog] [data-action=confirm]");
    await page.click("[data-action=add-rule]");
    await page.selectOption("[name=kind]", "budget");
    const field = page.locator("[role=dialog] [name=field]");
    await field.waitFor();
    expect(await field.locator("option").allInnerTexts()).to.deep.equal(["amount"]);
    await confirm.click();
    await page
      .locator(".field", { has: page.locator("[name=max_total]") })
      .getByText("must be a number")
      .waitFor();
    await page.fill("[name=max_total]", "1000.50");
    await page.selectOption("[name=scope]", "workspace");
    await page.selectOption("[name=release]", "confirmed");
    await assertAccessible(page);
    await confirm.click();
    await untilText(
      /mode: budget\n\s+scope: workspace\n\s+sums:\n\s+- tool: send_payment\n\s+field: amount\n\s+currency: EUR\n\s+max_total: 1000\.5\n\s+window_seconds: 86400\n\s+release: confirmed/,
    );
    await page.getByText("The text compiles.").waitFor();
    await write(TEXT);
    await page.getByText("The text compiles.").waitFor();
  });

  it("are tried on the past, with every changed decision.", async () => {
    await page.click("[data-action=backtest]");
    await page.click("[data-action=start]");
    await page.locator("[data-report]").waitFor();
    expect(await page.locator("[data-action=stricter] strong").innerText()).to.equal("2");
    expect(await page.locator("[data-action=looser] strong").innerText()).to.equal("0");
    expect(await page.locator(`[data-report] [data-id=${agentId}]`).innerText()).to.match(/payer\s+3\s+0\s+2/);
    await page.click("[data-action=stricter]");
    expect(await page.locator("[data-report] .virtual [data-id^=dec_]").count()).to.equal(2);
    await page.click(`[data-report] [data-id=${agentId}] [data-action=stricter-of-agent]`);
    await page.getByRole("heading", { name: "Changed decisions: stricter, of payer" }).waitFor();
    expect(await page.locator("[data-report] .virtual [data-id^=dec_]").count()).to.equal(2);
    await assertAccessible(page);
    await screenshot(page, "mandate-backtest");
    await page.keyboard.press("Escape");
  });

  it("are published after what changes was shown, and compared by version.", async () => {
    await page.click("[data-action=publish]");
    await page.locator(".diff .is-added", { hasText: "name: payments" }).waitFor();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.waitForURL(/mandates\/mnd_/);
    mandateId = page.url().split("/").at(-1) ?? "";
    await page.getByText("version 1", { exact: true }).waitFor();
    await write((await textIn()).replace("value: 500", "value: 800"));
    await page.locator("[data-action=publish]:enabled").click();
    expect(await page.locator(".diff .is-removed .shown").innerText()).to.contain("value: 500");
    expect(await page.locator(".diff .is-added .shown").innerText()).to.contain("value: 800");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("version 2", { exact: true }).waitFor();
    await page.getByRole("tab", { name: "History" }).click();
    await page.locator(".diff .is-added", { hasText: "value: 800" }).waitFor();
    await page.getByRole("tab", { name: "Text" }).click();
  });

  it("are rolled back in four clicks, with author and note in the history.", async () => {
    const { rest } = dashboard.service;
    const conditions = (value: number) => ({ rules: [{ field: "amount", operator: ">", value }] });
    const body = (value: number) => ({
      name: "refunds",
      rules: [{ tool: "send_payment", decision: "block", conditions: conditions(value) }],
    });
    const { mandate } = (await rest("POST /v1/enforce/mandates", {
      ...body(70),
      note: "agreed in May",
    })) as unknown as {
      readonly mandate: { readonly mandate_id: string };
    };
    await rest(`PUT /v1/enforce/mandates/${mandate.mandate_id}`, body(7_000));
    const other = await dashboard.open("/mandates");
    await other.locator(`[data-id=${mandate.mandate_id}] a`).first().click();
    await other.getByRole("tab", { name: "History" }).click();
    const version = (number: number) => other.locator(`[data-id=version-${number}]`);
    await version(1).getByText("agreed in May").waitFor();
    expect(await version(1).innerText()).to.contain("by first admin");
    expect(await version(2).locator("[data-action=restore]").count()).to.equal(0);
    await version(1).locator("[data-action=restore]").click();
    await other.locator("[role=dialog] .diff .is-added", { hasText: "value: 70" }).waitFor();
    await assertAccessible(other);
    await screenshot(other, "mandate-restore");
    await other.click("[role=dialog] [data-action=confirm]");
    await version(3).getByText("restores version 1").waitFor();
    await assertAccessible(other);
    await other.getByRole("tab", { name: "Text" }).click();
    await other.locator(".cm-line", { hasText: "value: 70" }).waitFor();
    await other.locator("[data-action=publish]:disabled").waitFor();
    await other.context().close();
    await rest(`DELETE /v1/enforce/mandates/${mandate.mandate_id}`);
  });

  it("say so when somebody else published meanwhile.", async () => {
    await write((await textIn()).replace("value: 800", "value: 900"));
    const conditions = { rules: [{ field: "amount", operator: ">", value: 1_000 }] };
    await dashboard.service.rest(`PUT /v1/enforce/mandates/${mandateId}`, {
      name: "payments",
      rules: [{ tool: "send_payment", decision: "escalate", conditions }],
    });
    await page.locator("[data-action=publish]:enabled").click();
    await page.locator("[data-conflict]", { hasText: "version 3" }).waitFor();
    await page.locator(".diff .is-removed", { hasText: "value: 1000" }).waitFor();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("version 4", { exact: true }).waitFor();
  });

  it("show what becomes looser first, with the decisions behind each number.", async () => {
    const { rest } = dashboard.service;
    const other = await dashboard.service.agent("refunder");
    for (const [agent_id, amount] of [
      [agentId, 2_000],
      [other, 3_000],
      [other, 3_001],
      [other, 50],
    ] as const) {
      await rest("POST /v1/enforce/intercept", {
        agent_id,
        action_type: "payment.send",
        tool: "send_payment",
        metadata: { arguments: { amount, to: "ACME" } },
      });
    }
    // So far more than 900 escalated. Now 2,000 passes, and 50 is blocked.
    const small = { field: "amount", operator: "between", value: [10, 100] };
    await rest(`PUT /v1/enforce/mandates/${mandateId}`, {
      name: "payments",
      rules: [
        { tool: "send_payment", decision: "block", conditions: { rules: [small] } },
        {
          tool: "send_payment",
          decision: "escalate",
          conditions: { rules: [{ field: "amount", operator: ">", value: 2_999 }] },
        },
      ],
    });
    await page.reload();
    await editor().waitFor();
    await page.getByText("The text compiles.").waitFor();
    await page.click("[data-action=backtest]");
    await page.selectOption("[name=against]", "recorded");
    await page.click("[data-action=start]");
    await page.locator("[data-report]").waitFor();
    expect(await page.locator("[data-action=looser] strong").innerText()).to.equal("1");
    expect(await page.locator("[data-action=stricter] strong").innerText()).to.equal("1");
    const listed = async () =>
      (await page.locator("[data-report] .virtual [data-id^=dec_] .badge").allInnerTexts()).join(" ");
    expect(await listed()).to.equal("escalate allow allow block");
    expect(
      await page
        .locator("[data-report] tbody tr")
        .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id"))),
    ).to.deep.equal([agentId, other]);
    await page.click(`[data-report] [data-id=${other}] [data-action=stricter-of-agent]`);
    expect(await listed()).to.equal("allow block");
    await page.click("[data-action=looser]");
    expect(await listed()).to.equal("escalate allow");
    await page.locator("[data-report]").getByText("1 now allowed").click();
    await page.getByRole("heading", { name: "Changed decisions: looser, now allowed" }).waitFor();
    await assertAccessible(page);
    await screenshot(page, "mandate-backtest-looser");
    await page.keyboard.press("Escape");
  });

  it("list what people had said of the decisions that would be stricter.", async () => {
    const { rest } = dashboard.service;
    const asked: { decision: string; escalation: string }[] = [];
    for (const amount of [4_001, 4_002, 4_003]) {
      const reply = await rest("POST /v1/enforce/intercept", {
        agent_id: agentId,
        action_type: "payment.send",
        tool: "send_payment",
        metadata: { arguments: { amount, to: "ACME" } },
      });
      asked.push({ decision: reply.decision_id ?? "", escalation: reply.escalation_id ?? "" });
    }
    for (const [index, resolution] of ["approved", "rejected"].entries()) {
      await rest(`POST /v1/enforce/escalations/${asked[index]?.escalation}/resolve`, { resolution });
    }
    await write((await textIn()).replace("escalate", "block"));
    await page.getByText("The text compiles.").waitFor();
    await page.click("[data-action=backtest]");
    await page.click("[data-action=start]");
    await page.locator("[data-report]").waitFor();
    const ids = () =>
      page
        .locator("[data-report] .virtual [data-id^=dec_]")
        .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id")));
    await page.click("[data-action=people-approved]");
    await page.getByRole("heading", { name: "Changed decisions: stricter, people had approved" }).waitFor();
    expect(await ids()).to.deep.equal([asked[0]?.decision]);
    expect(await page.locator("[data-report] .virtual .badge").allInnerTexts()).to.deep.equal(["escalate", "block"]);
    await page.click("[data-action=people-rejected]");
    expect(await ids()).to.deep.equal([asked[1]?.decision]);
    await page.click("[data-action=people-pending]");
    await page.getByRole("heading", { name: "Changed decisions: stricter, wait for a person" }).waitFor();
    expect(await ids()).to.include(asked[2]?.decision);
    expect(await page.locator("[data-action=people-pending]").innerText()).to.equal(String((await ids()).length));
    await assertAccessible(page);
    await screenshot(page, "mandate-backtest-people");
    await page.keyboard.press("Escape");
    await page.reload();
    await editor().waitFor();
  });

  it("only observe when they are told to, and say what they would have done.", async () => {
    await page.click("[data-action=mode]");
    await page.locator("[data-action=publish]:enabled").click();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("version 6", { exact: true }).waitFor();
    await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "payment.send",
      tool: "send_payment",
      metadata: { arguments: { amount: 5_000, to: "ACME" } },
    });
    await page.reload();
    await page.locator("[data-observed]", { hasText: "would have blocked 0 and escalated 1 of 1" }).waitFor();
    await editor().waitFor();
    await page.click("[data-action=mode]");
    await page.locator("[data-action=publish]:enabled").click();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("version 7", { exact: true }).waitFor();
  });

  it("have tests, generated and run.", async () => {
    await page.goto(`/mandates/${mandateId}?show=tests`);
    await page.getByText("This version has no tests.").waitFor();
    await page.click("[data-action=generate-tests]");
    await page.locator("[data-results]", { hasText: /\d+ passed, 0 failed/ }).waitFor();
    await assertAccessible(page);
    await screenshot(page, "mandate-tests");
  });

  it("are read by auditors, and hostile names are inert.", async () => {
    const { rest } = dashboard.service;
    await rest("POST /v1/enforce/mandates", {
      name: HOSTILE,
      rules: [{ type: "trust", decision: "block", conditions: { below: 5 } }],
    });
    const key = await rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const shown = await dashboard.open("/mandates", { key: key.secret ?? "" });
    const row = shown.locator(".mandate-row", { hasText: "evil" });
    await row.waitFor();
    expect(await row.locator(".shown").innerText()).to.equal(HOSTILE.replace("\u00a0", "U+00A0"));
    expect(await shown.locator("[data-action=new]").count()).to.equal(0);
    await row.locator("a").click();
    await editor(shown).waitFor();
    expect(await shown.locator("[data-action=publish], [data-action=archive]").count()).to.equal(0);
    await shown.goto(`/mandates/${mandateId}`);
    await editor(shown).waitFor();
    await editor(shown).click();
    await shown.keyboard.insertText("x");
    expect(await textIn(shown)).to.match(/^name: payments/);
    expect(await shown.evaluate(() => "hacked" in window)).to.equal(false);
    await shown.close();
  });

  it("are listed with what they decide and how often they fired, and found by a word of a rule.", async () => {
    await page.goto("/mandates");
    const row = page.locator(`[data-id="${mandateId}"]`);
    const cell = (title: string) => row.locator(`[data-title="${title}"] .columns-value`);
    await row.locator('[data-title="Fired in 7 days"]').filter({ hasText: /[1-9]/ }).waitFor();
    expect(await cell("Mode").innerText()).to.equal("enforces");
    expect(await cell("Rules").innerText()).to.match(/^\d argument rules?$/);
    expect(await page.locator(".mandate-row").count()).to.equal(2);
    await page.fill("input[name=q]", "SEND_pay");
    await page.waitForURL(/q=SEND_pay/);
    await page.locator(".mandate-row", { hasText: "evil" }).waitFor({ state: "detached" });
    expect(await page.locator(".mandate-row").count()).to.equal(1);
    await page.fill("input[name=q]", "nowhere");
    await page.getByText("No mandate has this in its name or rules").waitFor();
  });

  it("are archived after their name was typed.", async () => {
    await page.goto("/mandates");
    await page.locator(".mandate-row", { hasText: "evil" }).locator("a").click();
    await page.click("[data-action=archive]");
    expect(await page.locator("[role=dialog] [data-action=confirm]").isDisabled()).to.equal(true);
    await page.fill("[name=confirm]", HOSTILE);
    await page.click("[role=dialog] [data-action=confirm]");
    await page.waitForURL(/\/mandates$/);
    await page.locator(`[data-id="${mandateId}"]`).waitFor();
    // The list is read again after the change.
    await page.locator(".mandate-row", { hasText: "evil" }).waitFor({ state: "detached" });
    expect(await page.locator(".mandate-row").count()).to.equal(1);
  });

  it("load the editor only where it opens.", async () => {
    const fresh = await dashboard.open("/overview");
    await fresh.waitForSelector("[data-screen=overview] .chart canvas");
    const bytes = await fresh.evaluate(() =>
      performance
        .getEntriesByType("resource")
        .filter(({ name }) => name.endsWith(".js"))
        .reduce((sum, entry) => sum + (entry as PerformanceResourceTiming).encodedBodySize, 0),
    );
    console.log(`      ${Math.round(bytes / 1024)} KiB of script, compressed, for the first screen`);
    expect(bytes).to.be.within(50_000, 250 * 1024);
    await fresh.close();
  });

  describe("whose draft is not published", () => {
    const CHANGED = "name: unpublished\nrules: []\n";
    let writing: Page;

    /** Opens the list, then a mandate from there, and changes its text. */
    const draft = async (): Promise<string> => {
      const { mandate } = await dashboard.service.rest("POST /v1/enforce/mandates", {
        name: `draft ${Date.now()}`,
        rules: [{ type: "action", decision: "block", conditions: { match_action_types: ["drafted"] } }],
      });
      const { mandate_id: id } = mandate as unknown as { mandate_id: string };
      writing = await dashboard.open("/mandates");
      await writing.click(`[data-id="${id}"] a`);
      await editor(writing).waitFor();
      await write(CHANGED, writing);
      await writing.locator("[data-action=revert]").waitFor();
      return id;
    };
    const question = () => writing.getByRole("dialog", { name: "Leave without publishing?" });
    const path = () => new URL(writing.url()).pathname;

    it("ask before a link leaves them, and keep the text for those who stay.", async () => {
      const id = await draft();
      await writing.click("[data-nav=limits]");
      await question().locator("[data-action=stay]").click();
      await question().waitFor({ state: "detached" });
      expect([path(), await textIn(writing)]).to.deep.equal([`/mandates/${id}`, CHANGED]);
      // Another part of the same mandate keeps it too.
      await writing.getByRole("tab", { name: "History" }).click();
      await writing.getByRole("tab", { name: "Text" }).click();
      expect(await textIn(writing)).to.equal(CHANGED);
      await writing.click("[data-nav=limits]");
      await question().locator("[data-action=leave]").click();
      await writing.waitForURL(/\/limits$/);
      await writing.click("[data-nav=vault]");
      await writing.waitForSelector("[data-screen=vault]");
      expect(await question().count()).to.equal(0);
    });

    it("ask before Back leaves them.", async () => {
      const id = await draft();
      await writing.goBack();
      await question().locator("[data-action=stay]").click();
      await question().waitFor({ state: "detached" });
      expect([path(), await textIn(writing)]).to.deep.equal([`/mandates/${id}`, CHANGED]);
      await writing.goBack();
      await question().locator("[data-action=leave]").click();
      await writing.waitForURL(/\/mandates$/);
      await writing.waitForSelector("[data-screen=mandates]");
    });

    it("let the browser ask before the tab is closed or another site opened.", async () => {
      await draft();
      const asked = writing.waitForEvent("dialog");
      await writing.close({ runBeforeUnload: true });
      const dialog = await asked;
      expect(dialog.type()).to.equal("beforeunload");
      await dialog.dismiss();
      expect(await textIn(writing)).to.equal(CHANGED);
    });

    it("ask nothing once they are published, or taken back.", async () => {
      await draft();
      await writing.click("[data-action=revert]");
      await writing.click("[data-nav=limits]");
      await writing.waitForSelector("[data-screen=limits]");
      expect(await question().count()).to.equal(0);
      await writing.goto("/mandates/new");
      await editor(writing).waitFor();
      await write(TEXT.replace("name: payments", "name: published at once"), writing);
      await writing.click("[data-action=publish]:enabled");
      await writing.click("[role=dialog] [data-action=confirm]");
      await writing.waitForURL(/\/mandates\/mnd_/);
      expect(await question().count()).to.equal(0);
      await writing.click("[data-nav=limits]");
      await writing.waitForSelector("[data-screen=limits]");
    });
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const shown = await dashboard.open("/mandates", appearance);
      await shown.locator(".mandate-row").first().waitFor();
      await assertColumns(shown, "Mandates", ["Mandate", "Decides", "Rules", "Mode", "Fired in 7 days", "Changed"]);
      await assertAccessible(shown);
      await screenshot(shown, `mandates-${name}`);
      await shown.goto(`/mandates/${mandateId}`);
      await shown.getByText("The text compiles.").waitFor();
      await assertAccessible(shown);
      await screenshot(shown, `mandate-${name}`);
      await shown.goto(`/mandates/${mandateId}?show=history`);
      await shown.locator(".diff").waitFor();
      await assertAccessible(shown);
      await screenshot(shown, `mandate-history-${name}`);
      await shown.close();
    });
  }
});
