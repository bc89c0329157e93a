import type { Page } from "playwright-core";
import { assertAccessible, type Dashboard, describeInBrowser, openDashboard, screenshot } from "./browser.ts";

describeInBrowser("the lists", () => {
  let dashboard: Dashboard;
  let page: Page;
  before(async () => {
    dashboard = await openDashboard();
    page = await dashboard.open("/overview");
  });
  after(() => dashboard.close());

  const submit = (action: string) => page.click(`[role=dialog] [data-action=${action}]`);
  const row = (value: string) => page.locator(`[data-screen=list] [data-id="${value}"]`);
  const valuesBecome = async (want: readonly string[], gone: readonly string[] = []): Promise<void> => {
    for (const value of want) await row(value).waitFor();
    for (const value of gone) await row(value).waitFor({ state: "detached" });
  };

  it("begin empty, and take a list with pasted values.", async () => {
    await page.click("[data-nav=lists]");
    await page.locator("[data-screen=lists]").getByText("There is no list yet").waitFor();
    await page.click("[data-action=create-list]");
    await page.fill("[name=name]", "Hosts");
    await page.selectOption("[name=kind]", { index: 1 });
    await page.fill("[name=values]", "Example.com\n\n*.corp.example\nmüller.de\n");
    await submit("submit-list");
    await page.locator("[role=dialog] .fault-text").first().waitFor();
    await page.fill("[name=name]", "hosts");
    await submit("submit-list");
    await page.locator("[data-screen=lists] [data-id=hosts]").waitFor();
    await assertAccessible(page);
    await screenshot(page, "lists");
  });

  it("show, search, add and remove values.", async () => {
    await page.click("[data-screen=lists] [data-id=hosts] a");
    await page.locator("[data-screen=list]").waitFor();
    await valuesBecome(["*.corp.example", "example.com", "xn--mller-kva.de"]);
    await page.click("[data-action=add-values]");
    await page.fill("[name=values]", "b.example\nnot a host");
    await submit("submit-values");
    await page.locator("[role=dialog] .fault-text").first().waitFor();
    await page.fill("[name=values]", "b.example\nc.example");
    await submit("submit-values");
    await valuesBecome(["*.corp.example", "b.example", "c.example", "example.com", "xn--mller-kva.de"]);
    await page.fill("[name=search]", "b.exa");
    await valuesBecome(["b.example"], ["c.example", "example.com"]);
    await page.click("[data-id='b.example'] [data-action=remove-value]");
    await page.getByText("No value contains this text").waitFor();
    await page.fill("[name=search]", "");
    await valuesBecome(["*.corp.example", "c.example", "example.com", "xn--mller-kva.de"], ["b.example"]);
    await page.getByText("4 values of kind host").waitFor();
    await assertAccessible(page);
    for (const width of [1440, 1024, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await screenshot(page, `list-${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  it("are deleted once no mandate names them.", async () => {
    await page.click("[data-action=delete-list]");
    await submit("confirm");
    await page.locator("[data-screen=lists]").getByText("There is no list yet").waitFor();
  });
});
