import { expect } from "chai";
import type { Page } from "playwright-core";
import { AgentBlockedError } from "../../src/client/index.ts";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\u202eabc\u0007\u200b';

/** A little longer than presses by pointer are refused after the queue moved. */
const MOVED_MS = 500;

describeInBrowser("the escalations", () => {
  let dashboard: Dashboard;
  let page: Page;
  let agentId: string;

  /** Line of a pending escalation. */
  const row = (id: string, on = page) => on.locator(`[data-id="${id}"]`);
  /** Card of the selected escalation, or of the one that a page shows. */
  const card = (id: string, on = page) => on.locator(`#card-${id}`);
  /** Selects an escalation: another may be selected still, which somebody has just answered. */
  const choose = async (id: string, on = page) => {
    await row(id, on).getByRole("link").click();
    return card(id, on);
  };
  const answered = (id: string, on = page) => on.locator(`[data-answered="${id}"]`);

  /** Attempts a payment over REST; gives the escalation. */
  async function ask(args: object, more: object = {}): Promise<string> {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "payment.send",
      tool: "send_payment",
      metadata: { arguments: args },
      ...more,
    });
    return String(id);
  }

  /** A function that runs when its call is allowed. */
  function guarded(paid: unknown[]) {
    return dashboard.service.admin.guard(async (amount: number, to: string) => paid.push([amount, to]), {
      agentId,
      actionType: "payment.send",
      tool: "send_payment",
      toArguments: (amount, to) => ({ amount, to, currency: "EUR" }),
    });
  }

  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    agentId = await dashboard.service.agent("payer");
    const properties = {
      amount: { type: "number", description: "what is paid" },
      currency: { type: "string" },
      to: { type: "string", description: "who is paid" },
    };
    await rest("POST /v1/enforce/tools", { name: "send_payment", input_schema: { type: "object", properties } });
    const over = (value: number, decision: string) => ({
      tool: "send_payment",
      decision,
      conditions: { rules: [{ field: "amount", operator: ">", value }] },
    });
    await rest("POST /v1/enforce/mandates", { name: "payments", rules: [over(100, "escalate"), over(5_000, "block")] });
    page = await dashboard.open("/escalations");
    await page.getByText("Nothing waits for a person").waitFor();
    await page.getByText("live", { exact: true }).waitFor();
  });
  // A test that fails leaves nothing to the ones after it.
  afterEach(async () => {
    const { escalations } = await dashboard.service.rest("GET /v1/enforce/escalations?status=pending&page_size=100");
    for (const { escalation_id: id } of escalations as unknown as readonly { escalation_id: string }[]) {
      await dashboard.service.resolve(id, "rejected");
    }
  });
  after(() => dashboard.close());

  it("release an agent's held call by pressing approve, and say what became of it.", async () => {
    const paid: unknown[] = [];
    const call = guarded(paid)(750, "ACME");
    const first = page.locator("[data-id^=esc_]");
    await first.waitFor();
    const id = (await first.getAttribute("data-id")) ?? "";
    const line = await first.innerText();
    expect(line).to.contain("payment.send").and.contain("payer").and.contain("amount").and.contain("€750.00");
    const shown = await choose(id);
    await shown.locator("[data-argument=amount]").getByText("€750.00").waitFor();
    const text = await shown.innerText();
    expect(text).to.contain("payment.send").and.contain("payer").and.contain("amount > 100").and.contain("750");
    expect(text).to.contain("would allow at amount <= 100");
    await shown.locator("[data-argument=amount]").getByText("number · what is paid").waitFor();
    expect(await page.title()).to.match(/^\(1\) Escalations/);
    expect(await page.locator("[data-count=escalations]").innerText()).to.equal("1");
    await shown.locator("[data-action=approve]").click();
    await call;
    expect(paid).to.deep.equal([[750, "ACME"]]);
    await answered(id).getByText(/^Used/).waitFor();
    expect(await page.title()).to.match(/^Escalations/);
  });

  it("show whom the agent acts for, its trust, the session so far, and a shared limit before and after.", async () => {
    const { rest } = dashboard.service;
    const principal = await dashboard.service.agent("principal");
    await rest("POST /v1/enforce/grants", {
      grantor_agent_id: principal,
      grantee_agent_id: agentId,
      action_types: ["wire.*"],
    });
    await rest("POST /v1/enforce/mandates", {
      name: "wires",
      rules: [
        { type: "action", decision: "escalate", conditions: { match_action_types: ["wire.send"] } },
        {
          type: "sequence",
          decision: "block",
          conditions: {
            mode: "velocity",
            match_action_types: ["wire.*"],
            max_count: 5,
            window_seconds: 3_600,
            scope: "workspace",
          },
        },
      ],
    });
    const { session } = await rest("POST /v1/enforce/sessions", { agent_id: agentId });
    const { session_id } = session as unknown as { session_id: string };
    const act = (action_type: string, more: object = {}) =>
      rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type, ...more });
    await act("wire.elsewhere");
    await act("wire.look", { session_id });
    await act("wire.check", { session_id });
    const { escalation_id: id } = await act("wire.send", { session_id, on_behalf_of: principal });
    const shown = await choose(String(id));
    await shown.getByRole("heading", { name: "Just before, in this session" }).waitFor();
    await shown.locator(".before li").nth(1).waitFor();
    expect(await shown.locator(".before li a").allInnerTexts()).to.deep.equal(["wire.check", "wire.look"]);
    await shown.getByText("3 before, 4 with this action, of 5 in 1 h for default").waitFor();
    const bar = await shown.locator(".bar").boundingBox();
    expect(bar?.height).to.be.within(4, 12);
    expect((await shown.locator(".bar .is-new").boundingBox())?.width).to.be.closeTo((bar?.width ?? 0) / 5, 2);
    await shown.locator(".asker").getByRole("link", { name: "principal" }).waitFor();
    await shown.getByRole("img", { name: /trust over the last \d+ changes/ }).waitFor();
    expect(await shown.locator(".asker").innerText()).to.contain(`in session ${session_id}`);
    await screenshot(page, "escalations-around");
    await dashboard.service.resolve(String(id), "rejected");
    await page.getByText("Nothing waits for a person").waitFor();
  });

  for (const { of, tool } of [
    { of: "a registered tool", tool: "send_payment" },
    { of: "an unregistered tool", tool: "wire_money" },
  ]) {
    it(`keep the buttons in their place while the rest of the card is read (${of}).`, async () => {
      const { rest } = dashboard.service;
      const type = `limited.${tool}`;
      const limit = (max_count: number) => ({
        type: "sequence",
        decision: "block",
        conditions: {
          mode: "velocity",
          match_action_types: ["limited.*"],
          max_count,
          window_seconds: 3_600,
          scope: "workspace",
        },
      });
      await rest("POST /v1/enforce/mandates", {
        name: type,
        rules: [
          { type: "action", decision: "escalate", conditions: { match_action_types: [type] } },
          ...[50, 60, 70].map(limit),
        ],
      });
      const payer = await dashboard.service.agent(`payer by ${tool}`);
      for (let turn = 0; turn < 4; turn++) await ask({ amount: 1 }, { agent_id: payer, action_type: "look" });
      const id = await ask({ amount: 600, to: "ACME" }, { agent_id: payer, action_type: type, tool });
      const shown = await dashboard.open("/limits");
      await shown.addInitScript((selector) => {
        const places = new Set<string>();
        const look = (): void => {
          const { x, y } = document.querySelector(selector)?.getBoundingClientRect() ?? {};
          if (y !== undefined) places.add(`${x} ${y}`);
          Object.assign(window, { places: [...places] });
          requestAnimationFrame(look);
        };
        look();
      }, `#card-${id} [data-action=approve]`);
      for (const path of ["/escalations", `/escalations/${id}`]) {
        await shown.goto(path);
        await card(id, shown).locator(".bar").nth(1).waitFor();
        await card(id, shown).locator(".before li").nth(2).waitFor();
        await card(id, shown).locator(".spark").waitFor();
        expect(await shown.evaluate("window.places"), path).to.have.length(1);
      }
      await screenshot(shown, `escalation-complete-${tool}`);
      await shown.close();
    });
  }

  it("give the agent the reason of a rejection.", async () => {
    const call = guarded([])(751, "ACME").then(
      () => undefined,
      (error: unknown) => error,
    );
    const first = page.locator("[data-id^=esc_]", { hasText: "751" });
    await first.getByRole("link").click();
    await page.click("[data-action=reject]");
    await page.getByText("The amount or the recipient is wrong. Check it and ask again.").click();
    await page.click("[role=dialog] [data-action=confirm]");
    const error = await call;
    expect(error).to.be.instanceOf(AgentBlockedError);
    const note = "The amount or the recipient is wrong. Check it and ask again.";
    expect((error as AgentBlockedError).note).to.equal(note);
    expect((error as AgentBlockedError).message).to.match(
      /was rejected: escalation `esc_\w+`\. The person said: The amount/,
    );
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("are approved with changed arguments, after the difference was shown.", async () => {
    const id = await ask({ amount: 900, currency: "EUR", to: "ACME" });
    await (await choose(id)).locator("[data-action=edit]").click();
    await page.fill('[name="argument.amount"]', "9,5");
    expect(await page.locator("[role=dialog] .fault-text").innerText()).to.equal("must be a number");
    expect(await page.locator("[data-action=review]").isDisabled()).to.equal(true);
    await page.fill('[name="argument.amount"]', "9000");
    await page.click("[data-action=review]");
    const row = page.locator("[role=dialog] [data-argument=amount]");
    expect([await row.locator("del").innerText(), await row.locator("ins").innerText()]).to.deep.equal([
      "€900.00",
      "€9,000.00",
    ]);
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator("[role=dialog] [role=alert]").getByText("amount > 5000").first().waitFor();
    await page.click("[data-action=back]");
    await page.fill('[name="argument.amount"]', "400");
    await page.click("[data-action=review]");
    await page.click("[role=dialog] [data-action=confirm]");
    await answered(id).locator(".badge.is-good", { hasText: "approved with other arguments" }).waitFor();
    await answered(id).getByText("What was changed").click();
    const changed = answered(id).locator(".outcome [data-argument=amount]");
    expect([await changed.locator("del").innerText(), await changed.locator("ins").innerText()]).to.deep.equal([
      "€900.00",
      "€400.00",
    ]);
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${id}`);
    const record = escalation as unknown as { status: string; replaced_by: string; edited_arguments: object };
    expect(record.status).to.equal("rejected");
    expect(record.edited_arguments).to.include({ amount: 400 });
    const replaced = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "payment.send",
      tool: "send_payment",
      escalation_id: record.replaced_by,
      metadata: { arguments: { amount: 400, currency: "EUR", to: "ACME" } },
    });
    expect(replaced.decision).to.equal("allow");
  });

  it("let one of two people win, and tell the other who.", async () => {
    const id = await ask({ amount: 800, to: "TWO" });
    const other = await dashboard.open("/escalations");
    await row(id, other).waitFor();
    await row(id).waitFor();
    // The other page does not hear of it before it presses.
    await other.evaluate(() => window.dispatchEvent(new Event("offline")));
    await other.context().setOffline(false);
    await dashboard.service.resolve(id, "rejected");
    for (const on of [other, page]) await answered(id, on).locator('.actor[title^="key_"]').waitFor();
    expect(await row(id, other).count()).to.equal(0);
    const raced = await ask({ amount: 801, to: "TWO" });
    await Promise.all([choose(raced), choose(raced, other)]);
    const press = (on: Page) =>
      card(raced, on)
        .locator("[data-action=approve]")
        .click({ timeout: 5_000 })
        .catch(() => undefined);
    await Promise.all([press(page), press(other)]);
    await answered(raced).getByText("approved", { exact: true }).waitFor();
    await answered(raced, other).getByText("approved", { exact: true }).waitFor();
    await other.close();
  });

  it("tell who was first to the one who pressed too late.", async () => {
    const { rest } = dashboard.service;
    const operator = await rest("POST /v1/admin/keys", { name: "second", role: "operator" });
    const id = await ask({ amount: 802, to: "TWO" });
    const late = await dashboard.open("/overview", { key: operator.secret ?? "" });
    // This page hears of nothing by itself: it shows what it read.
    await late.context().route("**/WatchEscalations", (route) => route.abort());
    await late.goto(`/escalations/${id}`);
    await card(id, late).locator("[data-action=approve]").waitFor();
    await (await choose(id)).locator("[data-action=approve]").click();
    await answered(id).getByText("approved", { exact: true }).waitFor();
    const { escalation } = await rest(`GET /v1/enforce/escalations/${id}`);
    const { resolved_by_name: first } = escalation as unknown as { resolved_by_name: string };
    await card(id, late).locator("[data-action=reject]").click();
    await late.click("[role=dialog] [data-action=confirm]");
    await late.locator(".announcement").getByText(`It was approved before you: by ${first}.`).waitFor();
    await late.locator(".escalation .outcome").getByText(`by ${first}`).waitFor();
    await late.close();
  });

  it("notify a person who looks elsewhere, on every screen.", async () => {
    const away = await dashboard.open("/escalations");
    await away.getByText("live", { exact: true }).waitFor();
    await away.click("[data-nav=limits]");
    await away.waitForSelector("[data-screen=limits]");
    await away.evaluate(() => {
      const notified: { title: string; body: string | undefined; press: () => void }[] = [];
      // A browser without windows grants no notifications.
      class Recorded extends EventTarget {
        static readonly permission = "granted";
        onclick: (() => void) | null = null;
        constructor(title: string, options?: NotificationOptions) {
          super();
          notified.push({ title, body: options?.body, press: () => this.onclick?.() });
        }
      }
      Object.assign(window, { notified, Notification: Recorded });
      Object.defineProperty(document, "hidden", { get: () => true });
    });
    const id = await ask({ amount: 333, to: "NOTIFY" });
    await away.waitForFunction(() => (window as unknown as { notified: unknown[] }).notified.length > 0);
    const shown = await away.evaluate(() => {
      const [first] = (window as unknown as { notified: { title: string; body: string; press(): void }[] }).notified;
      first?.press();
      return `${first?.title}: ${first?.body}`;
    });
    expect(shown).to.equal("An action waits for a person: payer wants payment.send");
    await away.waitForURL(new RegExp(`/escalations/${id}$`));
    await away.waitForFunction(() => document.title.startsWith("(1) "));
    await away.close();
    await dashboard.service.resolve(id, "rejected");
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("that are asked for again are one card with a count, and a batch is approved after its sum was shown.", async () => {
    const ids = [
      await ask({ amount: 200, currency: "EUR", to: "A" }),
      await ask({ amount: 200.1, currency: "EUR", to: "B" }),
      await ask({ amount: 900, currency: "USD", to: "C" }, { agent_id: await dashboard.service.agent("second payer") }),
    ];
    expect(await ask({ amount: 200, currency: "EUR", to: "A" })).to.equal(ids[0]);
    await (await choose(ids[0] ?? "")).getByText("asked 2 times").waitFor();
    expect(await page.locator(".virtual [data-id^=esc_]").count()).to.equal(3);
    await row(ids[0] ?? "")
      .getByText("asked 2×")
      .waitFor();
    for (const id of ids) await row(id).locator("[data-action=select]").check();
    await page.click("[data-action=batch]");
    await page.locator("[role=dialog] tbody").getByText("amount: €400.10").waitFor();
    const total = page.locator("[role=dialog] tfoot");
    expect((await total.innerText()).split(/\s*[\t\n]\s*/)).to.deep.equal([
      "In all",
      "3",
      "amount: €400.10",
      "amount: $900.00",
    ]);
    await screenshot(page, "escalations-batch");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("Approved 3 of 3.").waitFor();
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("are extended, and leave the queue when their time is up.", async () => {
    const id = await ask({ amount: 300, to: "EXTEND" });
    await (await choose(id)).locator("[data-action=extend]").click();
    await page.click("[data-action=extend-86400]");
    await card(id).getByText(/^1 d/).waitFor();
    await dashboard.service.resolve(id, "rejected");
    await dashboard.service.rest("PATCH /v1/admin/workspaces/default", { escalation_ttl_seconds: 1 });
    const short = await ask({ amount: 301, to: "SHORT" });
    await answered(short).getByText("its time was up").waitFor();
    expect(await row(short).count()).to.equal(0);
    await dashboard.service.rest("PATCH /v1/admin/workspaces/default", { escalation_ttl_seconds: 3_600 });
  });

  it("take single keys, which can be switched off.", async () => {
    const ids = [await ask({ amount: 111, to: "K1" }), await ask({ amount: 112, to: "K2" })] as [string, string];
    await row(ids[1]).waitFor();
    await choose(ids[0]);
    await page.locator("main").press("j");
    await page.locator("main").press("r");
    await page.waitForSelector("[role=dialog]");
    // Text in a dialogue is text.
    await page.fill("[role=dialog] textarea", "");
    await page.locator("[role=dialog] textarea").pressSequentially("aeraj");
    expect(await page.locator("[role=dialog] textarea").inputValue()).to.equal("aeraj");
    await page.keyboard.press("Escape");
    await page.locator("main").press("a");
    await answered(ids[1]).waitFor();
    await page.uncheck("[data-action=shortcuts]");
    await page.locator("main").press("a");
    await page.reload();
    await row(ids[0]).waitFor();
    expect(await page.locator("[data-action=shortcuts]").isChecked()).to.equal(false);
    await page.locator("main").press("a");
    await page.check("[data-action=shortcuts]");
    await page.locator("main").press("a");
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("that differ beside their arguments alone are one card, of which one is approved at a time or all after their sum.", async () => {
    const trace = (trace: string) => ({ metadata: { arguments: { amount: 250, currency: "EUR", to: "SAME" }, trace } });
    const ids = [await ask({}, trace("1")), await ask({}, trace("2")), await ask({}, trace("3"))] as const;
    expect(new Set(ids).size).to.equal(3);
    await row(ids[0]).getByText("3 identical").waitFor();
    await choose(ids[0]);
    expect(await page.locator("[data-id^=esc_]").count()).to.equal(1);
    await card(ids[0]).locator("[data-action=approve]").click();
    await card(ids[1]).getByText("2 identical").waitFor();
    // The answered line stays where it was.
    await page.locator(`.virtual [data-answered="${ids[0]}"]`).getByText("approved", { exact: true }).waitFor();
    await page.waitForTimeout(MOVED_MS);
    await card(ids[1]).locator("[data-action=approve-identical]").click();
    await page.getByText("amount: €500.00").waitFor();
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("Approved 2 of 2.").waitFor();
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("that somebody else answers keep the mark, so that no key reaches the card that follows.", async () => {
    const ids = [await ask({ amount: 121, to: "M1" }), await ask({ amount: 122, to: "M2" })] as const;
    await row(ids[1]).waitFor();
    await choose(ids[0]);
    await page.locator(`#card-${ids[0]}.is-focused`).waitFor();
    // A key that comes with the mark may be meant for the card before.
    await page.waitForTimeout(MOVED_MS);
    await dashboard.service.resolve(ids[0], "rejected");
    await answered(ids[0]).waitFor();
    await page.locator("main").press("a");
    await page.getByText("This one is answered. Press j for the next.").waitFor();
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${ids[1]}`);
    expect((escalation as unknown as { status: string }).status).to.equal("pending");
    await dashboard.service.resolve(ids[1], "rejected");
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("are edited as JSON too, with arguments that were not there, and show the service's faults at them.", async () => {
    const id = await ask({ amount: 910, to: "JSON" });
    await (await choose(id)).locator("[data-action=edit]").click();
    await page.fill('[name="argument.amount"]', "9100");
    await page.click("[data-action=review]");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator("[role=dialog] [role=alert]").first().waitFor();
    await page.click("[data-action=back]");
    const field = page.locator(".edited-argument", { has: page.locator('[name="argument.amount"]') });
    await field.locator(".fault-text").getByText("amount > 5000").waitFor();
    await page.click("[data-action=as-json]");
    await page.fill("[name=arguments]", "{");
    expect(await page.locator("[data-action=review]").isDisabled()).to.equal(true);
    await page.fill("[name=arguments]", '{ "amount": 410, "to": "JSON", "currency": "EUR" }');
    await screenshot(page, "escalations-edit-json");
    await page.click("[data-action=review]");
    expect(await page.locator("[role=dialog] [data-argument=currency] del").innerText()).to.equal("not sent");
    await page.click("[role=dialog] [data-action=confirm]");
    await answered(id).getByText("approved with other arguments").waitFor();
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${id}`);
    const { edited_arguments: edited } = escalation as unknown as { edited_arguments: object };
    expect(edited).to.deep.equal({ amount: 410, to: "JSON", currency: "EUR" });
  });

  it("show hostile and huge content inert and readable.", async () => {
    const id = await ask({
      amount: 500,
      to: HOSTILE,
      [`note${HOSTILE}`]: "\u05e9\u05dc\u05d5\u05dd",
      long: "x".repeat(900_000),
    });
    const shown = await choose(id);
    await shown.waitFor();
    const text = await shown.locator("[data-argument=to]").innerText();
    expect(text).to.contain("<script>").and.contain("U+202E").and.contain("U+0007").and.contain("U+200B");
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    expect((await shown.innerText()).length).to.be.below(10_000);
    await shown
      .getByText(/more characters/)
      .first()
      .waitFor();
    await screenshot(page, "escalations-hostile");
    await dashboard.service.resolve(id, "rejected");
    await page.getByText("Nothing waits for a person").waitFor();
  });

  it("are read by auditors, and answered by others than the asker where four eyes are needed.", async () => {
    const { rest } = dashboard.service;
    const key = async (role: string, owner = role) =>
      String((await rest("POST /v1/admin/keys", { name: role, role, owner })).secret);
    const id = await ask({ amount: 600, to: "EYES" });
    const auditor = await dashboard.open("/escalations", { key: await key("auditor") });
    await (await choose(id, auditor)).getByText("A key of the role operator or admin can answer.").waitFor();
    expect(await auditor.locator("[data-action=approve], [data-action=select]").count()).to.equal(0);
    await rest("PATCH /v1/admin/workspaces/default", { four_eyes: true });
    await (await choose(id)).locator("[data-action=approve]").click();
    // The refusal shows what has changed since the page was told of the escalation.
    await card(id).locator("[data-obstacle=four_eyes]").waitFor();
    const operator = await dashboard.open("/escalations", { key: await key("operator") });
    await (await choose(id, operator)).locator("[data-action=approve]").click();
    await answered(id, operator).waitFor();
    await auditor.close();
    const edited = await ask({ amount: 610, to: "EDITED" });
    await (await choose(edited, operator)).locator("[data-action=edit]").click();
    await operator.fill("[name='argument.amount']", "410");
    await operator.click("[data-action=review]");
    await operator.click("[role=dialog] [data-action=confirm]");
    await operator.getByText("Another person has to approve it now.").waitFor();
    const waiting = answered(edited, operator).locator(".badge.is-wait");
    await waiting.getByText("edited: another person has to approve it").waitFor();
    const { escalation } = await rest(`GET /v1/enforce/escalations/${edited}`);
    const waits = String((escalation as unknown as { replaced_by: string }).replaced_by);
    await (await choose(waits, operator)).locator("[data-obstacle=four_eyes]").waitFor();
    expect(await card(waits, operator).locator("[data-action=approve]").isDisabled()).to.equal(true);
    const second = await dashboard.open("/escalations", { key: await key("operator", "second") });
    await (await choose(waits, second)).locator("[data-action=approve]").click();
    await answered(waits, second).locator(".actor", { hasText: "second" }).waitFor();
    const outcome = answered(edited, operator).locator(".badge");
    await outcome.getByText("approved with other arguments").waitFor();
    expect(await outcome.getAttribute("class")).to.contain("is-good");
    const refused = await ask({ amount: 611, to: "REFUSED" });
    const { replacement } = await rest(
      `POST /v1/enforce/escalations/${refused}/edit`,
      { arguments: { amount: 411, to: "REFUSED" } },
      await key("operator", "editor"),
    );
    const { escalation_id: proposed } = replacement as unknown as { escalation_id: string };
    await answered(refused, operator).locator(".badge.is-wait").waitFor();
    const rejection = { resolution: "rejected" };
    await rest(`POST /v1/enforce/escalations/${proposed}/resolve`, rejection, await key("operator", "third"));
    await answered(refused, operator).locator(".badge.is-bad", { hasText: "edited, then rejected" }).waitFor();
    await second.close();
    await rest("PATCH /v1/admin/workspaces/default", { four_eyes: false });
    await operator.close();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const id = await ask({ amount: 700, currency: "EUR", to: `ACME ${name}` });
      const shown = await dashboard.open("/escalations", appearance);
      await row(id, shown).waitFor();
      await assertAccessible(shown);
      await screenshot(shown, `escalations-${name}`);
      // A phone shows the list alone, and the card on a page of its own.
      await (await choose(id, shown)).locator("[data-argument=amount]").waitFor();
      await assertAccessible(shown);
      await card(id, shown).locator("[data-action=edit]").click();
      await assertAccessible(shown);
      await screenshot(shown, `escalations-edit-${name}`);
      await shown.keyboard.press("Escape");
      await card(id, shown).locator("[data-action=reject]").click();
      await assertAccessible(shown);
      await screenshot(shown, `escalations-reject-${name}`);
      await shown.goto(`/escalations/${id}`);
      await shown.getByText("This exact action, once").waitFor();
      await assertAccessible(shown);
      await screenshot(shown, `escalation-${name}`);
      await shown.close();
    });
  }
});
