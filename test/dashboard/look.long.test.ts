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

const KIB = 1_024;

/** Files that a page loaded, with their compressed sizes in bytes. */
const filesOf = (page: Page): Promise<readonly { readonly name: string; readonly bytes: number }[]> =>
  page.evaluate(() =>
    (performance.getEntriesByType("resource") as PerformanceResourceTiming[]).map(({ name, encodedBodySize }) => ({
      name,
      bytes: encodedBodySize,
    })),
  );

describeInBrowser("the look of the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
  });
  after(() => dashboard.close());

  it("is written in one bundled font, of the service's own address.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    await page.evaluate(() => document.fonts.ready.then(() => undefined));
    const families = await page.evaluate(() =>
      [...document.fonts]
        .filter(({ status }) => status === "loaded")
        .map(({ family, weight }) => `${family} ${weight}`),
    );
    expect(families.map((family) => family.replaceAll('"', ""))).to.deep.equal(["Geist 100 900"]);
    const fonts = (await filesOf(page)).filter(({ name }) => /\.(woff2?|ttf|otf)$/.test(name));
    expect(fonts.map(({ name }) => new URL(name).origin)).to.deep.equal([dashboard.service.http]);
    expect(await page.evaluate(() => getComputedStyle(document.body).fontFamily)).to.match(/^"?Geist/);
  });

  it("loads at most 250 KiB of script for the first screen, 340 KiB with style and font.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview] .chart canvas");
    const files = await filesOf(page);
    const sum = (end: RegExp): number =>
      files.filter(({ name }) => end.test(name)).reduce((bytes, file) => bytes + file.bytes, 0);
    const [script, all] = [sum(/\.js$/), sum(/\.(js|css|woff2)$/)];
    console.log(`      ${Math.round(script / KIB)} KiB of script, ${Math.round(all / KIB)} KiB in all, compressed`);
    expect(script).to.be.within(50_000, 250 * KIB);
    expect(all).to.be.within(script + 20_000, 340 * KIB);
  });

  it("has an icon and a word for each screen, and the set-up under Settings.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    const links = page.getByRole("navigation", { name: "Screens" }).getByRole("link");
    const entries = await links.evaluateAll((elements) =>
      elements.map((element) => ({
        name: element.getAttribute("data-nav"),
        title: element.textContent,
        icons: element.querySelectorAll("svg[aria-hidden=true]").length,
      })),
    );
    for (const { name: entry, title, icons } of entries) expect([title, icons], entry ?? "").to.deep.equal([title, 1]);
    expect(entries.map(({ name: entry }) => entry)).to.include.members(["vault", "evidence", "settings", "keys"]);
    await page.click("[data-nav=settings]");
    await page.waitForSelector("[data-screen=settings]");
    for (const [id, screen] of [
      ["webhooks", "webhooks"],
      ["redaction-webhooks", "webhooks"],
      ["keys", "keys"],
      ["workspaces", "workspaces"],
    ]) {
      await page.click(`[data-screen=settings] [data-id=${id}] a`);
      await page.waitForSelector(`[data-screen=${screen}]`);
      expect(await page.title()).to.match(/ · Settings · Agent Control Plane$/);
      await page.locator("[data-screen]").getByRole("link", { name: "Settings", exact: true }).click();
      await page.waitForSelector("[data-screen=settings]");
    }
  });

  it("shows an auditor the settings that auditors may see.", async () => {
    const created = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const page = await dashboard.open("/settings", { key: created.secret ?? "" });
    await page.waitForSelector("[data-screen=settings] [data-id=webhooks]");
    const ids = await page
      .locator("[data-screen=settings] [data-id]")
      .evaluateAll((rows) => rows.map((each) => each.getAttribute("data-id")));
    expect(ids).to.deep.equal(["webhooks", "redaction-webhooks", "approver-groups"]);
  });

  it("writes every time in UTC or in the browser's zone, which the browser keeps.", async () => {
    const agentId = await dashboard.service.agent("Clock");
    const { decision_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "read",
    });
    const context = await dashboard.browser.newContext({
      baseURL: dashboard.service.http,
      timezoneId: "Asia/Kathmandu",
    });
    await context.request.post("/dashboard/sign-in", { data: { key: dashboard.service.adminKey } });
    const page = await dashboard.open(`/decisions/${id}`, { context });
    const exact = page.locator("[data-part=time] .exact-time");
    const title = page.locator("[data-part=time] time");
    await exact.getByText("GMT+5:45").waitFor();
    expect(await title.getAttribute("title")).to.match(/\+05:45$/);
    expect(await title.getAttribute("datetime")).to.match(/Z$/);
    await page.click("[data-action=account]");
    await page.click("[data-action=zone-utc]");
    await exact.getByText("UTC").waitFor();
    expect(await title.getAttribute("title")).to.match(/Z$/);
    await page.reload();
    await exact.getByText("UTC").waitFor();
    const at = new Date((await title.getAttribute("datetime")) ?? "");
    await page.goto("/decisions");
    const clock = page.locator(`[data-id="${id}"] .clock`);
    await clock.waitFor();
    expect(await clock.innerText()).to.contain(at.toISOString().slice(11, 19));
    await page.click("[data-action=account]");
    await page.click("[data-action=zone-local]");
    const local = new Date(at.getTime() + 345 * 60_000).toISOString().slice(11, 19);
    await clock.getByText(local).waitFor();
    await context.close();
  });

  it("prints a receipt black on white, without the frame, with its folded parts and the addresses of its proof.", async () => {
    const agentId = await dashboard.service.agent("Paper");
    const { decision_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "read",
    });
    const page = await dashboard.open(`/decisions/${id}`, { colorScheme: "dark" });
    await page.waitForSelector("[data-verdict=holds]");
    expect(await page.locator("[data-step=signature]").isVisible()).to.equal(false);
    await page.emulateMedia({ media: "print" });
    await page.locator("[data-step=signature]").waitFor();
    const style = await page.evaluate(() => {
      const { backgroundColor, color } = getComputedStyle(document.documentElement);
      return { backgroundColor, color };
    });
    expect(style).to.deep.equal({ backgroundColor: "rgb(255, 255, 255)", color: "rgb(0, 0, 0)" });
    for (const frame of ["nav", "header.top", "main button"]) {
      expect(await page.locator(`${frame} >> visible=true`).count(), frame).to.equal(0);
    }
    const addresses = await page.locator("[data-addresses]").innerText();
    expect(addresses).to.contain(`/decisions/${id}`).and.to.contain("/.well-known/jwks.json");
    await screenshot(page, "look-print-receipt");
    await page.emulateMedia({ media: "screen" });
    await page.locator("[data-step=signature]").waitFor({ state: "hidden" });
  });

  it("prints a certificate of revocation without the rest of the agent.", async () => {
    const agentId = await dashboard.service.agent("Gone");
    await dashboard.service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "paper" });
    const page = await dashboard.open(`/agents/${agentId}`);
    await page.waitForSelector("[data-verified=true]");
    await page.emulateMedia({ media: "print" });
    await page.locator("[data-commands]").waitFor();
    await page.locator("[data-addresses]").getByText("/v1/enforce/revocations/rev_").waitFor();
    expect(await page.locator("[role=tabpanel] >> visible=true").count()).to.equal(0);
    await screenshot(page, "look-print-certificate");
  });

  it("gives a list that ends a screen the rest of the page, so that only one thing scrolls.", async () => {
    for (let count = 0; count < 40; count++) {
      await dashboard.service.rest("POST /v1/enforce/mandates", {
        name: `rule ${count}`,
        rules: [{ type: "action", decision: "block", conditions: { match_action_types: [`never.${count}`] } }],
      });
    }
    const page = await dashboard.open("/mandates");
    await page.waitForSelector("[data-screen=mandates] .virtual li");
    const { bottom, height, main } = await page.evaluate(() => {
      const list = document.querySelector(".virtual");
      const content = document.querySelector("main#content");
      return {
        bottom: list?.getBoundingClientRect().bottom ?? 0,
        height: innerHeight,
        main: (content?.scrollHeight ?? 0) - (content?.clientHeight ?? 0),
      };
    });
    expect(main, "pixels that the page scrolls").to.be.at.most(1);
    expect(bottom).to.be.within(height - 60, height);
    await screenshot(page, "look-list");
  });

  it("keeps the place of a list with grey rows while it loads, and says so to screen readers.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route("**/ListMandates", async (route) => {
      await answered;
      await route.continue();
    });
    await page.click("[data-nav=mandates]");
    const loading = page.locator("main .loading.is-list");
    await loading.waitFor();
    expect(await loading.getAttribute("role")).to.equal("status");
    expect((await loading.textContent()) ?? "").to.match(/^Loading the mandates/);
    expect(await loading.locator(".skeleton").count()).to.be.above(3);
    const top = (await loading.boundingBox())?.y;
    answer();
    const list = page.locator("main .virtual");
    await list.locator("[data-id]").first().waitFor();
    expect((await list.boundingBox())?.y).to.be.closeTo(top ?? 0, 2);
  });

  it("sorts a list that is whole on the page by its headings, both ways, and then not.", async () => {
    for (const [tool, count] of [
      ["b.two", 1],
      ["A.one", 3],
      ["c.three", 2],
    ] as const) {
      const properties = Object.fromEntries(Array.from({ length: count }, (_, at) => [`a${at}`, { type: "string" }]));
      await dashboard.service.rest("POST /v1/enforce/tools", {
        name: tool,
        input_schema: { type: "object", properties },
      });
    }
    const page = await dashboard.open("/tools");
    const table = page.getByRole("table", { name: "Tools" });
    await table.locator("[data-id='b.two']").waitFor();
    const rows = () =>
      table.locator("li[data-id]").evaluateAll((each) => each.map((row) => row.getAttribute("data-id")));
    const given = await rows();
    const press = async (title: string, order: string): Promise<void> => {
      await table.getByRole("columnheader", { name: title }).getByRole("button").click();
      await table.locator(`[role=columnheader][aria-sort=${order}]`, { hasText: title }).waitFor();
    };
    await press("Arguments", "descending");
    expect(await rows()).to.deep.equal(["A.one", "c.three", "b.two"]);
    await press("Arguments", "ascending");
    expect(await rows()).to.deep.equal(["b.two", "c.three", "A.one"]);
    await press("Arguments", "none");
    expect(await rows()).to.deep.equal(given);
    await press("Name", "ascending");
    expect(await rows()).to.deep.equal(["A.one", "b.two", "c.three"]);
    await assertAccessible(page);
    await screenshot(page, "look-sorted");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is looked at (${name}).`, async () => {
      const page = await dashboard.open("/overview", appearance);
      await page.waitForSelector("[data-screen=overview] .chart canvas");
      await screenshot(page, `look-overview-${name}`);
      await page.goto("/settings");
      await page.waitForSelector("[data-screen=settings] [data-id]");
      await assertAccessible(page);
      await assertFits(page);
      if (appearance.width < 760) await page.getByRole("button", { name: "Navigation" }).click();
      await screenshot(page, `look-settings-${name}`);
    });
  }
});
