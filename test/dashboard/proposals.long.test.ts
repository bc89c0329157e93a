import { expect } from "chai";
import type { Page } from "playwright-core";
import { ownedBy } from "../support/owned-key.ts";
import type { RestCall } from "../support/service.ts";
import {
  assertAccessible,
  assertColumns,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
} from "./browser.ts";

const HOSTILE = "<img src=x onerror=window.hacked=1> \u202egood";

describeInBrowser("changes that others review", () => {
  let dashboard: Dashboard;
  let ben: RestCall;
  let bensKey: string;
  before(async () => {
    dashboard = await openDashboard();
    const { rest } = dashboard.service;
    bensKey = String((await rest("POST /v1/admin/keys", { name: "Ben", role: "operator", owner: "Ben" })).secret);
    ben = await ownedBy("Ben", dashboard.service);
    await rest("PUT /v1/enforce/lists/payees", { kind: "text", values: ["alice", "bob"] });
    await rest("PATCH /v1/admin/workspaces/default", { mandate_reviews: 1 });
  });
  after(() => dashboard.close());

  const idOf = (answer: object): string => (answer as { proposal: { proposal_id: string } }).proposal.proposal_id;
  const propose = async (name: string, note = ""): Promise<string> =>
    idOf(
      await dashboard.service.rest("POST /v1/enforce/mandates", {
        name,
        note,
        rules: [{ type: "trust", decision: "block", conditions: { below: 5 } }],
      }),
    );
  const open = (path: string, key?: string): Promise<Page> => dashboard.open(path, key === undefined ? {} : { key });
  const write = async (page: Page, text: string): Promise<void> => {
    await page.locator(".cm-content").click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(text);
    await page.locator("[data-action=publish]:enabled").click();
  };

  it("are told as proposals when they are published, with a link, and the text stays.", async () => {
    const page = await open("/mandates/new");
    await write(page, "name: reviewed\nrules:\n  - type: trust\n    decision: block\n    conditions: {below: 5}\n");
    await page.fill("[role=dialog] [name=note]", "as agreed");
    await page.click("[role=dialog] [data-action=confirm]");
    const told = page.locator("[data-proposed]");
    expect(await told.innerText()).to.match(/^Proposed; waits for another person\./);
    expect(await page.locator(".cm-line", { hasText: "name: reviewed" }).count()).to.equal(1);
    expect(await page.locator("[data-action=publish]").isDisabled()).to.equal(true);
    await assertAccessible(page);
    const id = (await told.getAttribute("data-proposed")) ?? "";
    await told.getByRole("link", { name: "Open the proposal" }).click();
    await page.locator(`[data-screen=proposal] [data-id=${id}]`).waitFor();
    expect(await page.locator("[data-note]").innerText()).to.equal("as agreed");
    expect(await page.locator(".diff .is-added").count()).to.be.above(3);
    expect(await page.locator("[data-cannot]").innerText()).to.include("You cannot accept it: you made proposal");
    expect(await page.locator("[data-action=accept]").count()).to.equal(0);
  });

  it("wait for others in their overview and navigation, and are in force once one accepts on the page.", async () => {
    const page = await open("/overview", bensKey);
    const need = page.locator("[data-need=proposal]");
    await need.getByText("Create mandate reviewed").waitFor();
    await page.locator("[data-count=proposals]").getByText("1", { exact: true }).waitFor();
    await need.getByRole("link").click();
    await page.click("[data-action=accept]");
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator("[data-state]").getByText("accepted").waitFor();
    expect(await page.locator("[data-accepted]").innerText())
      .to.include("1 of 1")
      .and.include("Ben");
    await page.locator("[data-count=proposals]").getByText("1", { exact: true }).waitFor({ state: "detached" });
    await page.goto("/mandates");
    await page.getByRole("link", { name: "reviewed" }).click();
    await page.getByRole("tab", { name: "History" }).click();
    await page.locator("[data-id=version-1]", { hasText: "as agreed" }).waitFor();
  });

  it("are rejected with a note, which the list of ended ones shows as it is written.", async () => {
    const id = await propose("markup <b>x</b>", HOSTILE);
    const page = await open("/proposals", bensKey);
    await page.getByRole("link", { name: "Create mandate markup <b>x</b>" }).click();
    await page.locator(`[data-id=${id}]`).waitFor();
    expect(await page.locator("[data-note]").innerText())
      .to.include("<img src=x")
      .and.include("U+202E");
    await page.click("[data-action=reject]");
    await page.fill("[role=dialog] [name=note]", HOSTILE);
    await page.click("[role=dialog] [data-action=confirm]");
    await page.locator("[data-rejected]").getByText("<img src=x").waitFor();
    await page.goto("/proposals?show=ended");
    const row = page.getByRole("table", { name: "Ended proposals" }).getByRole("row").filter({ hasText: "markup" });
    expect(await row.innerText())
      .to.include("rejected")
      .and.include("<img src=x");
    expect(await page.locator("[data-screen] img, [data-screen] b").count()).to.equal(0);
    expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    await assertAccessible(page);
    await assertColumns(page, "Ended proposals", ["Change", "By", "State", "Accepted", "Proposed"]);
  });

  it("show what they change in a list, a pack or the setting, and say when it changed meanwhile.", async () => {
    const { rest } = dashboard.service;
    const put = idOf(await rest("PUT /v1/enforce/lists/payees", { kind: "text", values: ["bob", "carol"] }));
    const pack = idOf(
      await rest("PUT /v1/enforce/packs/team", {
        mandates: [{ name: "team rule", rules: [{ type: "trust", decision: "block", conditions: { below: 7 } }] }],
      }),
    );
    const setting = idOf(await rest("PATCH /v1/admin/workspaces/default", { mandate_reviews: 0 }));
    const page = await open(`/proposals/${put}`, bensKey);
    await page.locator(".diff .is-removed", { hasText: "alice" }).waitFor();
    expect(await page.locator(".diff .is-added").allInnerTexts()).to.satisfy((all: readonly string[]) =>
      all.join().includes("carol"),
    );
    await page.goto(`/proposals/${pack}`);
    await page.getByRole("heading", { name: "team rule" }).waitFor();
    await page.goto(`/proposals/${setting}`);
    expect(await page.locator("[data-setting]").innerText()).to.include("from 1 to 0");
    expect(await page.locator("[data-cannot]").innerText()).to.include("reviewed by keys and people of the role admin");
    const added = idOf(await rest("POST /v1/enforce/lists/payees:add", { values: ["dave"] }));
    await ben(`POST /v1/enforce/proposals/${added}:accept`);
    await page.goto(`/proposals/${put}`);
    await page.locator("[data-state]").getByText("out of date").waitFor();
    expect(await page.locator("[data-cannot]").innerText()).to.include("has changed since");
    expect(await page.locator("[data-action=accept]").count()).to.equal(0);
    await assertFits(page);
  });

  it("are read by auditors without buttons, and never from another workspace.", async () => {
    const { rest, workspace } = dashboard.service;
    const id = await propose("seen by all");
    const { secret } = await rest("POST /v1/admin/keys", { name: "auditor", role: "auditor" });
    const page = await open(`/proposals/${id}`, String(secret));
    await page.locator("[data-cannot]").waitFor();
    expect(await page.locator("[data-action=accept], [data-action=reject]").count()).to.equal(0);
    const { key } = await workspace("elsewhere");
    const other = await open(`/proposals/${id}`, key);
    await other.locator(".fault").getByText("proposal").waitFor();
    expect(await other.locator("main").innerText()).to.not.include("seen by all");
  });
});
