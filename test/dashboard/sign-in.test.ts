import { expect } from "chai";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

describeInBrowser("signing in to the dashboard", () => {
  let dashboard: Dashboard;
  before(async () => {
    dashboard = await openDashboard();
  });
  after(() => dashboard.close());

  it("takes a key, shows the screens, and signs out.", async () => {
    const page = await dashboard.open("/escalations", { key: null });
    await page.fill("input[name=key]", "wrong");
    await page.click("[data-action=sign-in]");
    await page.getByText("the key is unknown, expired or revoked").waitFor();
    await page.fill("input[name=key]", dashboard.service.adminKey);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-nav=keys]");
    expect(new URL(page.url()).pathname).to.equal("/escalations");
    const cookies = await page.context().cookies();
    expect(cookies.map(({ httpOnly, sameSite, secure }) => ({ httpOnly, sameSite, secure }))).to.deep.equal([
      { httpOnly: true, sameSite: "Strict", secure: false },
    ]);
    await page.reload();
    await page.waitForSelector("[data-nav=keys]");
    await page.click("[data-action=account]");
    await page.click("[data-action=sign-out]");
    await page.waitForSelector("[data-screen=sign-in]");
    await page.reload();
    await page.waitForSelector("[data-screen=sign-in]");
  });

  it("leads to the documentation, and back.", async () => {
    const page = await dashboard.open("/overview");
    await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Documentation" }).click();
    await page.getByRole("heading", { name: "Documentation", level: 1 }).waitFor();
    await page.getByRole("link", { name: "Dashboard", exact: true }).first().click();
    await page.waitForSelector("[data-screen=overview]");
  });

  it("shows an auditor what auditors may see.", async () => {
    const created = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const page = await dashboard.open("/overview", { key: created.secret ?? "" });
    await page.waitForSelector("[data-nav=vault]");
    expect(await page.locator("[data-nav=keys]").count()).to.equal(0);
  });

  it("ends every browser's sign-in by signing out everywhere, and with its key.", async () => {
    const created = await dashboard.service.rest("POST /v1/admin/keys", { name: "o", role: "operator" });
    const key = created.secret ?? "";
    const [one, other] = [await dashboard.open("/overview", { key }), await dashboard.open("/overview", { key })];
    await one.click("[data-action=account]");
    await one.click("[data-action=sign-out-everywhere]");
    await one.waitForSelector("[data-screen=sign-in]");
    await other.reload();
    await other.waitForSelector("[data-screen=sign-in]");
    const third = await dashboard.open("/overview", { key });
    await third.waitForSelector("[data-nav=overview]");
    const { key_id: id } = created.key as unknown as { key_id: string };
    await dashboard.service.rest(`DELETE /v1/admin/keys/${id}`);
    await third.reload();
    await third.waitForSelector("[data-screen=sign-in]");
  });

  it("is coloured as the system or as a person chose, which the browser remembers.", async () => {
    const page = await dashboard.open("/overview");
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const choose = async (title: string): Promise<void> => {
      await page.click("[data-action=account]");
      await page.getByRole("menuitemradio", { name: title }).click();
      await page.getByRole("menuitemradio").first().waitFor({ state: "detached" });
    };
    const [light, dark] = ["rgb(246, 247, 249)", "rgb(16, 20, 27)"];
    await page.waitForSelector("[data-screen=overview]");
    expect(await ground()).to.equal(light);
    await choose("Dark");
    expect(await ground()).to.equal(dark);
    await page.reload();
    await page.waitForSelector("[data-screen=overview]");
    expect(await ground()).to.equal(dark);
    await page.emulateMedia({ colorScheme: "dark" });
    await choose("Light");
    expect(await ground()).to.equal(light);
    await choose("As the system");
    expect(await ground()).to.equal(dark);
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await dashboard.open("/", { key: null, ...appearance });
      await page.waitForSelector("[data-screen=sign-in]");
      await assertAccessible(page);
      await screenshot(page, `sign-in-${name}`);
    });
  }
});
