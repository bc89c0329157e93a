import { once } from "node:events";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const rule = (decision: Decision, pattern: string) => ({
  type: RuleType.ACTION,
  decision,
  conditions: { matchActionTypes: [pattern] },
});
const ROW = "[data-screen=decisions] li[data-id]";
const HOSTILE = 'payer\u00a0<img src=x onerror="window.hacked=1">';

describeInBrowser("the feed of decisions", () => {
  let dashboard: Dashboard;
  let agentId: string;
  let otherId: string;

  const act = (action_type: string, by = agentId, more: object = {}) =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: by, action_type, ...more });
  const idOf = async (action_type: string, by?: string): Promise<string> =>
    (await act(action_type, by)).decision_id as unknown as string;
  const live = async (page: Page): Promise<Page> => {
    await page.waitForSelector("[data-link=live]");
    await page.waitForSelector(ROW);
    return page;
  };

  before(async () => {
    dashboard = await openDashboard({ rules: [rule(Decision.BLOCK, "drop.*"), rule(Decision.ESCALATE, "pay.*")] });
    agentId = await dashboard.service.agent(HOSTILE);
    otherId = await dashboard.service.agent("reader");
    for (const type of ["read.a", "read.b", "drop.x", "pay.z"]) await act(type);
    await act("read.other", otherId, { tool: "send_payment" });
  });
  after(() => dashboard.close());

  it("shows history, and live decisions as they are sealed, each once.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    const first = page.locator(ROW).first();
    expect(await page.locator(ROW).count()).to.equal(5);
    const ids: string[] = [];
    for (const type of ["drop.one", "read.two", "pay.three"]) ids.push(await idOf(type));
    await page.waitForSelector(`${ROW}[data-id="${ids[2]}"]`);
    expect(await first.getAttribute("data-id")).to.equal(ids[2]);
    expect(await first.innerText()).to.match(/escalate/);
    expect(await page.locator(ROW).count()).to.equal(8);
    const shown = await page.locator(ROW).evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id")));
    expect(new Set(shown).size).to.equal(8);
  });

  it("holds live decisions while it is paused, counts them, and shows them then.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    const before = await page.locator(ROW).count();
    await page.click("[data-action=pause]");
    await act("read.held");
    const last = await idOf("read.held2");
    await page.waitForSelector('[data-waiting="2"]');
    expect(await page.locator(ROW).count()).to.equal(before);
    await page.click("[data-action=show-new]");
    await page.waitForSelector(`${ROW}[data-id="${last}"]`);
    expect(await page.locator(ROW).count()).to.equal(before + 2);
    expect(await page.locator("[data-action=pause]").count()).to.equal(1);
  });

  it("resumes after its connection broke, without a gap.", async () => {
    const sockets = new Set<Socket>();
    const { hostname, port } = new URL(dashboard.service.http);
    const proxy = createServer((from) => {
      const to = createConnection(Number(port), hostname);
      for (const socket of [from, to])
        sockets.add(socket.on("error", () => undefined).on("close", () => from.destroy()));
      from.pipe(to).pipe(from);
    });
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    const page = await dashboard.open(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}/decisions`, {
      key: null,
    });
    await page.fill("input[name=key]", dashboard.service.adminKey);
    await page.keyboard.press("Enter");
    await live(page);
    const before = await page.locator(ROW).count();
    const seen = await idOf("read.before");
    await page.waitForSelector(`${ROW}[data-id="${seen}"]`);
    await page.route("**/WatchDecisions", (route) => route.abort());
    for (const socket of sockets) socket.destroy();
    await page.waitForSelector("[data-link=broken]");
    const ids = [await idOf("read.gap1"), await idOf("read.gap2")];
    await page.unroute("**/WatchDecisions");
    for (const id of ids) await page.waitForSelector(`${ROW}[data-id="${id}"]`);
    expect(await page.locator(ROW).count()).to.equal(before + 3);
    await page.context().close();
    proxy.close();
  });

  it("keeps its filters in the address, across a reload, for history and live decisions.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    await page.selectOption("select[name=decision]", "block");
    await page.waitForURL(/decision=block/);
    await page.fill("input[name=action_type]", "drop.*");
    await page.keyboard.press("Enter");
    await page.waitForURL(/action_type=drop/);
    await page.fill("input[name=agent]", agentId);
    await page.keyboard.press("Enter");
    await page.waitForURL(/agent=agt_/);
    await page.reload();
    await live(page);
    const expected = new Set(["block"]);
    const words = async () => new Set(await page.locator(`${ROW} .badge`).allInnerTexts());
    expect(await words()).to.deep.equal(expected);
    expect(await page.inputValue("input[name=action_type]")).to.equal("drop.*");
    expect(await page.inputValue("select[name=decision]")).to.equal("block");
    await act("drop.else", otherId);
    await act("read.else");
    const id = await idOf("drop.live");
    await page.waitForSelector(`${ROW}[data-id="${id}"]`);
    expect(await words()).to.deep.equal(expected);
    expect(await page.getByText("drop.else").count()).to.equal(0);
    await page.click("[data-action=clear-filters]");
    await page.getByText("drop.else", { exact: true }).first().waitFor();
    expect(new URL(page.url()).search).to.equal("");
  });

  it("filters by tool and time, and says when nothing is live or fits.", async () => {
    const page = await live(await dashboard.open("/decisions?tool=send_payment"));
    expect(await page.locator(ROW).count()).to.equal(1);
    const id = (await act("read.tool", otherId, { tool: "send_payment" })).decision_id as unknown as string;
    await page.waitForSelector(`${ROW}[data-id="${id}"]`);
    await page.fill("input[name=until]", "2024-01-01T00:00:00");
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-link=off]");
    await page.getByText("No decision fits the filters").waitFor();
    await page.goto(`/decisions?since=${new Date(Date.now() + 60_000).toISOString()}`);
    await page.getByText("No decision fits the filters").waitFor();
    await page.goto("/decisions?since=nonsense&decision=maybe&agent=%3Cb%3E");
    await page.waitForSelector("[data-screen=decisions]");
  });

  it("finds an agent by its name, shows the name, and Back takes the filter away.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    const all = await page.locator(ROW).count();
    const agent = page.getByRole("combobox", { name: "Agent" });
    await agent.fill("rea");
    await page.getByRole("option", { name: /reader/ }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/decisions?agent=${otherId}`);
    await live(page);
    expect(await agent.inputValue()).to.equal("reader");
    expect(new Set(await page.locator(`${ROW} .feed-agent`).allInnerTexts())).to.deep.equal(new Set(["reader"]));
    await page.reload();
    await live(page);
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>("input[name=agent]")?.value === "reader");
    await page.goBack();
    await page.waitForURL((url) => url.search === "");
    await page.waitForFunction(([row, count]) => document.querySelectorAll(row as string).length === count, [
      ROW,
      all,
    ] as const);
    expect(await agent.inputValue()).to.equal("");
    await agent.fill("payer");
    await page.getByRole("option", { name: /payer/ }).click();
    await page.waitForURL(`**/decisions?agent=${agentId}`);
    expect(await agent.inputValue()).to.equal('payer[U+00A0]<img src=x onerror="window.hacked=1">');
    await agent.fill("");
    await page.waitForURL((url) => url.search === "");
  });

  it("applies what is typed without Enter, once, and Back takes it away.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    await page.locator("input[name=action_type]").pressSequentially("drop.*");
    await page.waitForURL((url) => url.searchParams.get("action_type") === "drop.*");
    await page.getByText("drop.x", { exact: true }).first().waitFor();
    await page.locator("input[name=tool]").pressSequentially("none");
    await page.waitForURL((url) => url.searchParams.get("tool") === "none");
    await page.goBack();
    await page.waitForURL((url) => !url.searchParams.has("tool") && url.searchParams.get("action_type") === "drop.*");
    expect(await page.inputValue("input[name=tool]")).to.equal("");
    await page.goBack();
    await page.waitForURL((url) => url.search === "");
  });

  it("has times to press: today, yesterday, the last seven days, in the zone of the page.", async () => {
    const context = await dashboard.browser.newContext({ baseURL: dashboard.service.http, timezoneId: "Asia/Kolkata" });
    await context.request.post("/dashboard/sign-in", { data: { key: dashboard.service.adminKey } });
    const page = await live(await dashboard.open("/decisions", { context }));
    const press = async (title: string): Promise<URLSearchParams> => {
      const button = page.getByRole("group", { name: "Time" }).getByRole("button", { name: title, exact: true });
      await button.click();
      await page.locator("[data-action^=preset][aria-pressed=true]", { hasText: title }).waitFor();
      return new URL(page.url()).searchParams;
    };
    const midnight = (since: string | null): string =>
      new Date(since ?? "").toLocaleTimeString("en-GB", { timeZone: "Asia/Kolkata" });
    const today = await press("Today");
    expect(midnight(today.get("since"))).to.equal("00:00:00");
    expect(today.has("until")).to.equal(false);
    await live(page);
    const yesterday = await press("Yesterday");
    expect(yesterday.get("until")).to.equal(today.get("since"));
    expect(Date.parse(yesterday.get("until") ?? "") - Date.parse(yesterday.get("since") ?? "")).to.equal(86_400_000);
    await page.waitForSelector("[data-link=off]");
    const week = await press("7 days");
    expect(Date.parse(today.get("since") ?? "") - Date.parse(week.get("since") ?? "")).to.equal(6 * 86_400_000);
    await page.goBack();
    await page.locator("[data-action^=preset][aria-pressed=true]", { hasText: "Yesterday" }).waitFor();
    await context.close();
  });

  it("shows what was allowed quietly, beside what was blocked or escalated.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    const colorOf = (word: string): Promise<string> =>
      page
        .locator(`${ROW} [data-decision=${word}] .feed-action`)
        .first()
        .evaluate((row) => getComputedStyle(row).color);
    const loud = await colorOf("block");
    expect(await colorOf("escalate")).to.equal(loud);
    expect(await colorOf("allow")).not.to.equal(loud);
  });

  it("counts the filtered decisions over time, says what it cannot count by, and a bar narrows the time.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    const chart = page.getByRole("region", { name: "Decisions over time" });
    const summary = (): Promise<string> => chart.locator("figcaption").innerText();
    await chart.locator("figcaption").waitFor();
    const { totals } = (await dashboard.service.rest("GET /v1/enforce/decisions:summary")) as unknown as {
      readonly totals: { readonly allow: string; readonly block: string; readonly escalate: string };
    };
    expect(await summary()).to.contain(
      `${totals.allow} allowed, ${totals.escalate} escalated, ${totals.block} blocked`,
    );
    expect(await chart.getByRole("heading").innerText()).to.equal("All decisions, last 24 hours");
    await page.selectOption("select[name=decision]", "block");
    await chart.getByRole("heading", { name: "Blocked decisions, last 24 hours" }).waitFor();
    expect(await summary()).to.contain(`0 allowed, 0 escalated, ${totals.block} blocked`);
    await page.fill("input[name=tool]", "send_payment");
    await chart.getByRole("heading", { name: "Blocked decisions, whatever their tool, last 24 hours" }).waitFor();
    await page.fill("input[name=tool]", "");
    await page.waitForURL((url) => !url.searchParams.has("tool"));
    await page.goto(`/decisions?agent=${agentId}&decision=block`);
    await live(page);
    const bar = chart.locator("[data-action=open-decisions]");
    await bar.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.searchParams.has("since") && url.searchParams.has("until"));
    const narrowed = new URL(page.url()).searchParams;
    expect([narrowed.get("agent"), narrowed.get("decision")]).to.deep.equal([agentId, "block"]);
    const [since, until] = [Date.parse(narrowed.get("since") ?? ""), Date.parse(narrowed.get("until") ?? "")];
    expect(until - since).to.equal(1_800_000);
    expect(since).to.be.at.most(Date.now());
    await chart.locator("figcaption", { hasText: /blocked/ }).waitFor();
    await page.goBack();
    await page.waitForURL((url) => !url.searchParams.has("since"));
  });

  it("shows hostile names inert.", async () => {
    const page = await live(await dashboard.open("/decisions"));
    await page.getByText("<img src=x", { exact: false }).first().waitFor();
    await page.locator(".unseen", { hasText: "U+00A0" }).first().waitFor();
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).to.equal(undefined);
    expect(await page.locator(`${ROW} img`).count()).to.equal(0);
  });

  it("shows the sign-in when its key ends.", async () => {
    const created = await dashboard.service.rest("POST /v1/admin/keys", { name: "o", role: "operator" });
    const page = await live(await dashboard.open("/decisions", { key: created.secret ?? "" }));
    const { key_id: id } = created.key as unknown as { key_id: string };
    await dashboard.service.rest(`DELETE /v1/admin/keys/${id}`);
    await page.waitForSelector("[data-screen=sign-in]");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await live(await dashboard.open("/decisions", appearance));
      await assertAccessible(page);
      await screenshot(page, `decisions-${name}`);
    });
  }
});
