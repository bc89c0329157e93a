import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
} from "./browser.ts";

/** Seconds that people have for an answer, unless a test says otherwise. */
const TTL = 86_400;
/** Height of a line, pixels. */
const LINE = 44;
/** Greatest sum of layout shifts while escalations arrive. */
const MAX_SHIFT = 0.01;

describeInBrowser("the queue of escalations", () => {
  let dashboard: Dashboard;
  let payer: string;
  let writer: string;

  const row = (page: Page, id: string) => page.locator(`.virtual [data-id="${id}"]`);
  const card = (page: Page, id: string) => page.locator(`#card-${id}`);

  /** Sets how long people have for an answer to what is asked from then on. */
  const setTtl = (seconds: number) =>
    dashboard.service.rest("PATCH /v1/admin/workspaces/default", { escalation_ttl_seconds: seconds });

  async function pay(args: object, more: object = {}): Promise<string> {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: payer,
      action_type: "payment.send",
      tool: "send_payment",
      metadata: { arguments: args },
      ...more,
    });
    return String(id);
  }

  async function write(content: string): Promise<string> {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: writer,
      action_type: "mail.send",
      action_content: content,
    });
    return String(id);
  }

  /** Asks with less time than all before. */
  async function payUrgently(args: object, seconds = 3_600): Promise<string> {
    await setTtl(seconds);
    const id = await pay(args);
    await setTtl(TTL);
    return id;
  }

  async function answerOf(id: string): Promise<{ readonly status: string; readonly note?: string }> {
    const { escalation } = await dashboard.service.rest(`GET /v1/enforce/escalations/${id}`);
    return escalation as unknown as { status: string; note?: string };
  }

  /** Ids of the lines from top to bottom. */
  const idsOn = (page: Page): Promise<string[]> =>
    page.locator(".virtual [data-id]").evaluateAll((rows) =>
      rows
        .map((element) => ({ id: element.getAttribute("data-id") ?? "", top: element.getBoundingClientRect().top }))
        .sort((a, b) => a.top - b.top)
        .map(({ id }) => id),
    );

  /** Waits until the lines stand in an order. */
  const waitForIds = async (page: Page, ids: readonly string[]): Promise<void> => {
    await page.waitForFunction((wanted) => {
      const rows = [...document.querySelectorAll(".virtual [data-id]")];
      const tops = new Map(rows.map((each) => [each.getAttribute("data-id"), each.getBoundingClientRect().top]));
      const shown = [...tops].sort(([, a], [, b]) => a - b).map(([id]) => id);
      return JSON.stringify(shown) === JSON.stringify(wanted);
    }, ids);
  };

  before(async () => {
    dashboard = await openDashboard();
    const { rest, agent } = dashboard.service;
    [payer, writer] = [await agent("payer"), await agent("writer")];
    const properties = { amount: { type: "number" }, currency: { type: "string" }, to: { type: "string" } };
    await rest("POST /v1/enforce/tools", { name: "send_payment", input_schema: { type: "object", properties } });
    await rest("POST /v1/enforce/mandates", {
      name: "payments",
      rules: [
        {
          tool: "send_payment",
          decision: "escalate",
          conditions: { rules: [{ field: "amount", operator: ">", value: 100 }] },
        },
      ],
    });
    await rest("POST /v1/enforce/mandates", {
      name: "letters",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["mail.*"] } }],
    });
    await setTtl(TTL);
  });
  // A test that fails leaves nothing to the ones after it.
  afterEach(async () => {
    const { escalations } = await dashboard.service.rest("GET /v1/enforce/escalations?status=pending&page_size=100");
    for (const { escalation_id: id } of escalations as unknown as readonly { escalation_id: string }[]) {
      await dashboard.service.resolve(id, "rejected");
    }
    await setTtl(TTL);
  });
  after(() => dashboard.close());

  it("has the most urgent of 25 approved with one click and no scrolling.", async () => {
    for (let count = 0; count < 24; count++) await pay({ amount: 200 + count, to: `LATER ${count}` });
    const urgent = await payUrgently({ amount: 9_800, currency: "EUR", to: "URGENT" });
    const page = await dashboard.open("/escalations");
    // The first page of a service that has just started, on a machine that may be busy.
    await page.getByText("Pending (25)").waitFor({ timeout: 60_000 });
    await card(page, urgent).waitFor();
    expect((await idsOn(page))[0]).to.equal(urgent);
    const approve = page.locator("[data-action=approve]");
    const box = await approve.boundingBox();
    const { height } = page.viewportSize() ?? { height: 0 };
    expect((box?.y ?? height) + (box?.height ?? 0)).to.be.at.most(height);
    await page.mouse.click((box?.x ?? 0) + 10, (box?.y ?? 0) + 10);
    await page.locator(`[data-answered="${urgent}"]`).getByText("approved", { exact: true }).waitFor();
    expect((await answerOf(urgent)).status).to.equal("approved");
  });

  it("gives each escalation a line of 44 pixels with the argument that fired and its value.", async () => {
    const paid = await pay({ to: "ACME", amount: 9_800, currency: "EUR" });
    await pay({ to: "ACME", amount: 9_800, currency: "EUR" });
    const written = await write("Dear customer");
    for (const width of [1_440, 1_024, 390]) {
      const page = await dashboard.open("/escalations", { width });
      await row(page, written).waitFor();
      const text = await row(page, paid).innerText();
      for (const part of ["payer", "payment.send", "amount", "€9,800.00", "asked 2×", "23 h"]) {
        expect(text, `at ${width}`).to.contain(part);
      }
      expect(await row(page, written).innerText()).to.contain("Dear customer");
      for (const id of [paid, written]) expect((await row(page, id).boundingBox())?.height).to.equal(LINE);
      expect(await card(page, paid).count(), "cards beside the list").to.equal(width > 1_040 ? 1 : 0);
      await assertFits(page);
      await page.close();
    }
  });

  it("scrolls the content of a card alone, with its answers in view.", async () => {
    const args = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`line${index}`, "x".repeat(200)]));
    const id = await pay({ ...args, amount: 500 });
    const page = await dashboard.open("/escalations");
    await page.setViewportSize({ width: 1_280, height: 640 });
    const body = card(page, id).locator(".escalation-body");
    await body.waitFor();
    const isScrolled = (selector: string) =>
      page.locator(selector).evaluate(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 1);
    expect(await isScrolled(".escalation-body")).to.equal(true);
    expect(await isScrolled("main#content"), "the page").to.equal(false);
    const places = () =>
      page.locator(".answers button").evaluateAll((buttons) => buttons.map((each) => each.getBoundingClientRect().y));
    const before = await places();
    await body.hover();
    await page.mouse.wheel(0, 2_000);
    await page.waitForFunction(() => (document.querySelector(".escalation-body")?.scrollTop ?? 0) > 0);
    expect(await places()).to.deep.equal(before);
    for (const action of ["approve", "edit", "reject", "extend"]) {
      const box = await page.locator(`[data-action=${action}]`).boundingBox();
      expect((box?.y ?? 640) + (box?.height ?? 0), action).to.be.at.most(640);
    }
  });

  it("keeps the selected line when a more urgent one arrives, when the order changes, and after Back.", async () => {
    const ids = [await pay({ amount: 700, to: "A" }), await pay({ amount: 900, to: "B" })] as const;
    const third = await pay({ amount: 800, to: "C" });
    const page = await dashboard.open("/escalations");
    await row(page, ids[1]).getByRole("link").click();
    await card(page, ids[1]).waitFor();
    // The pointer leaves the list, which then takes new lines at their places.
    await page.mouse.move(5, 5);
    const urgent = await payUrgently({ amount: 600, to: "D" });
    await waitForIds(page, [urgent, ids[0], ids[1], third]);
    expect(await card(page, ids[1]).count()).to.equal(1);
    expect(await row(page, ids[1]).getByRole("link").getAttribute("aria-current")).to.equal("true");
    await page.selectOption("[data-action=order]", "amount");
    await waitForIds(page, [ids[1], third, ids[0], urgent]);
    await page.selectOption("[data-action=order]", "age");
    await waitForIds(page, [ids[0], ids[1], third, urgent]);
    expect(await card(page, ids[1]).count()).to.equal(1);
    await card(page, ids[1]).getByRole("link", { name: "payer" }).click();
    await page.waitForSelector("[data-screen=agent]");
    await page.goBack();
    await card(page, ids[1]).waitFor();
  });

  it("moves no line under the pointer: more urgent ones wait, are counted, and are shown by a press.", async () => {
    const ids = [await pay({ amount: 700, to: "A" }), await pay({ amount: 900, to: "B" })] as const;
    const page = await dashboard.open("/escalations");
    await row(page, ids[1]).hover();
    const urgent = [await payUrgently({ amount: 600, to: "C" }), await payUrgently({ amount: 601, to: "D" }, 1_800)];
    await page.getByText("2 more urgent: show").waitFor();
    expect(await idsOn(page)).to.deep.equal(ids);
    const last = await pay({ amount: 602, to: "E" });
    await waitForIds(page, [...ids, last]);
    await page.click("[data-action=show-held]");
    await waitForIds(page, [...urgent.toReversed(), ...ids, last]);
    expect(await page.getByText("more urgent: show").count()).to.equal(0);
    // The line that was selected first is selected still.
    await card(page, ids[0]).waitFor();
    await row(page, ids[1]).hover();
    const next = await payUrgently({ amount: 603, to: "F" }, 900);
    await page.getByText("1 more urgent: show").waitFor();
    await page.mouse.move(5, 5);
    await waitForIds(page, [next, ...urgent.toReversed(), ...ids, last]);
  });

  it("rejects a group, and approves the selected ones, with one note.", async () => {
    const paid = [await pay({ amount: 700, to: "A" }), await pay({ amount: 900, to: "B" })];
    const written = [await write("one"), await write("two")];
    const page = await dashboard.open("/escalations");
    await row(page, written[1] ?? "").waitFor();
    await page.selectOption("[data-action=group]", "mandate");
    const head = page.locator("[data-group]", { hasText: "letters" });
    await head.getByText("2", { exact: true }).waitFor();
    await head.locator("[data-action=select-all]").check();
    await page.getByText("2 selected").waitFor();
    await page.click("[data-action=batch-reject]");
    await page.fill("[role=dialog] [name=note]", "No letters today.");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("Rejected 2 of 2.").waitFor();
    for (const id of written) expect(await answerOf(id)).to.include({ status: "rejected", note: "No letters today." });
    for (const id of paid) expect((await answerOf(id)).status).to.equal("pending");
    await page.locator(".queue-bar [data-action=select-all]").check();
    await page.getByText("2 selected").waitFor();
    await page.click("[data-action=batch]");
    await page.fill("[role=dialog] [name=note]", "Checked with the bank.");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.getByText("Approved 2 of 2.").waitFor();
    for (const id of paid) {
      expect(await answerOf(id)).to.include({ status: "approved", note: "Checked with the bank." });
    }
  });

  it("keeps order, groups, filters and search in the address, and Back takes a choice back.", async () => {
    const ids = [await pay({ amount: 700, to: "Hooli" }), await pay({ amount: 900, to: "ACME" })] as const;
    const written = await write("one");
    const page = await dashboard.open("/escalations");
    await waitForIds(page, [...ids, written]);
    const parameters = () => Object.fromEntries(new URL(page.url()).searchParams);
    await page.selectOption("[data-action=order]", "amount");
    await waitForIds(page, [ids[1], ids[0], written]);
    await page.selectOption("[name=agent]", { label: "payer" });
    await waitForIds(page, [ids[1], ids[0]]);
    await page.selectOption("[name=mandate]", { label: "payments" });
    await page.selectOption("[name=action]", "payment.send");
    await page.selectOption("[data-action=group]", "agent");
    await page.locator("[data-group]", { hasText: "payer" }).waitFor();
    const { mandate, ...others } = parameters();
    expect(others).to.deep.equal({ order: "amount", agent: payer, action: "payment.send", group: "agent" });
    expect(mandate).to.match(/^mnd_/);
    await page.fill("[name=q]", "hooli");
    await waitForIds(page, [ids[0]]);
    await page.reload();
    await waitForIds(page, [ids[0]]);
    const chosen = (name: string) => page.locator(`[name=${name}]`).inputValue();
    expect(await chosen("q")).to.equal("hooli");
    expect(await chosen("order")).to.equal("amount");
    expect(await chosen("agent")).to.equal(payer);
    await page.click("[data-nav=limits]");
    await page.waitForSelector("[data-screen=limits]");
    await page.goBack();
    await waitForIds(page, [ids[0]]);
    await page.fill("[name=q]", "nothing like this");
    await page.getByText("Nothing waits that passes these filters").waitFor();
    await page.click("[data-action=clear-filters]");
    await waitForIds(page, [ids[1], ids[0], written]);
    expect(parameters()).to.deep.equal({ order: "amount", group: "agent" });
    await page.selectOption("[data-action=group]", "");
    await page.waitForFunction(() => document.querySelectorAll("[data-group]").length === 0);
    await page.goBack();
    await page.locator("[data-group]", { hasText: "payer" }).waitFor();
  });

  it("opens a page of its own on a phone, with buttons of 44 pixels in view.", async () => {
    const ids = [await pay({ amount: 700, to: "A" }), await pay({ amount: 900, to: "B" })] as const;
    const page = await dashboard.open("/escalations", { width: 390 });
    await page.setViewportSize({ width: 390, height: 664 });
    await row(page, ids[1]).getByRole("link").click();
    await page.waitForURL(new RegExp(`/escalations/${ids[1]}$`));
    await card(page, ids[1]).locator("[data-argument=amount]").waitFor();
    for (const action of ["approve", "edit", "reject", "extend"]) {
      const box = await page.locator(`[data-action=${action}]`).boundingBox();
      expect(box?.height, action).to.be.at.least(44);
      expect((box?.y ?? 664) + (box?.height ?? 0), action).to.be.at.most(664);
    }
    await assertFits(page);
    await page.click("[data-action=approve]");
    await page.locator(".escalation .outcome").getByText("approved", { exact: true }).waitFor();
    expect((await answerOf(ids[1])).status).to.equal("approved");
    expect(await page.title()).to.equal("(1) payment.send · Escalations · Agent Control Plane");
    await page.click("[data-action=next]");
    await card(page, ids[0]).waitFor();
    await page.getByText("No other waits").waitFor();
    await page.goBack();
    await page.goBack();
    await row(page, ids[0]).waitFor();
  });

  it("leads by keyboard from a line to its card, whose content the arrows scroll.", async () => {
    const args = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`line${index}`, "x".repeat(200)]));
    const ids = [await pay({ amount: 700 }), await pay({ ...args, amount: 900 })] as const;
    const page = await dashboard.open("/escalations");
    await row(page, ids[1]).getByRole("link").focus();
    await card(page, ids[1]).waitFor();
    await page.keyboard.press("Enter");
    const body = card(page, ids[1]).locator(".escalation-body");
    await page.waitForFunction(() => document.activeElement?.classList.contains("escalation-body"));
    await page.keyboard.press("ArrowDown");
    await page.waitForFunction(() => (document.querySelector(".escalation-body")?.scrollTop ?? 0) > 0);
    await page.keyboard.press("k");
    await card(page, ids[0]).waitFor();
    expect(await body.count()).to.equal(0);
    expect(new URL(page.url()).pathname).to.equal("/escalations");
  });

  it("shifts nothing while escalations arrive.", async () => {
    for (let count = 0; count < 5; count++) await pay({ amount: 300 + count });
    const page = await dashboard.open("/escalations");
    await page.locator(".answers [data-action=approve]").waitFor();
    await page.getByText("No limit counts this action.").waitFor();
    await page.evaluate(() => {
      const shifts = { sum: 0 };
      Object.assign(window, { shifts });
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries() as unknown as readonly {
          value: number;
          hadRecentInput: boolean;
          startTime: number;
        }[]) {
          if (entry.startTime > 1_000 && !entry.hadRecentInput) shifts.sum += entry.value;
        }
      }).observe({ type: "layout-shift", buffered: true });
    });
    for (let count = 0; count < 20; count++) {
      await (count % 2 === 0 ? pay({ amount: 400 + count }) : payUrgently({ amount: 400 + count }, 7_200 - count));
    }
    await page.getByText("Pending (25)").waitFor();
    // The observer is told of shifts after the frame in which they happen.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const { sum } = await page.evaluate(() => (window as unknown as { shifts: { sum: number } }).shifts);
    expect(sum).to.be.at.most(MAX_SHIFT);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible with groups, a selection and a filter (${name}).`, async () => {
      const id = await pay({ amount: 700, currency: "EUR", to: "A" });
      await write("one");
      const page = await dashboard.open("/escalations?group=mandate&q=a", appearance);
      await row(page, id).locator("[data-action=select]").check();
      await page.getByText("1 selected").waitFor();
      const sideways = await page
        .locator(".queue-bar, .virtual")
        .evaluateAll((parts) => parts.map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth));
      expect(sideways, "pixels that lie beside the bar and the list").to.deep.equal([0, 0]);
      await assertAccessible(page);
      await assertFits(page);
    });
  }
});
