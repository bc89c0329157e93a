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

const HOSTILE = "pay <img src=x onerror=window.hacked=1> bot";

describeInBrowser("finding anything", () => {
  let dashboard: Dashboard;
  let agentId: string;
  let decisionId: string;
  let escalationId: string;
  let mandateId: string;

  const { rest } = {
    rest: (...given: Parameters<Dashboard["service"]["rest"]>) => dashboard.service.rest(...given),
  };
  const input = (page: Page) => page.getByRole("combobox", { name: /^Find/ });
  /** Opens the palette. Letters that are typed before it has the focus go to the page. */
  const openPalette = async (page: Page): Promise<void> => {
    await page.keyboard.press("Control+k");
    await page.locator("[role=combobox]:focus").waitFor();
  };
  const chosen = (page: Page) => page.locator("[role=option][aria-selected=true]");
  const shown = async (page: Page, name: string): Promise<void> => {
    await page.waitForSelector(`[data-screen=${name}]`);
  };
  const open = async (path = "/overview", options = {}): Promise<Page> => {
    const page = await dashboard.open(path, options);
    await page.waitForSelector("[data-screen]");
    return page;
  };
  const keyOf = async (role: string): Promise<string> =>
    (await rest("POST /v1/admin/keys", { name: role, role })).secret ?? "";

  before(async () => {
    dashboard = await openDashboard();
    agentId = await dashboard.service.agent("Pay-bot");
    await dashboard.service.agent(HOSTILE);
    const { mandate } = await rest("POST /v1/enforce/mandates", {
      name: "Large payments",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["pay"] } }],
    });
    mandateId = (mandate as unknown as { mandate_id: string }).mandate_id;
    const answer = await rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "pay" });
    decisionId = answer.decision_id ?? "";
    escalationId = answer.escalation_id ?? "";
  });
  after(() => dashboard.close());

  it("finds what the service knows by any words, however much of it there is.", async () => {
    const definition = Array.from({ length: 230 }, (_, at) => ({
      name: `bulk_${String(at).padStart(3, "0")}`,
      description: "one of many",
      inputSchema: { type: "object" },
    }));
    await rest("POST /api/control/enforcement/tools", definition);
    const page = await open();
    await openPalette(page);
    await input(page).fill("229 BULK");
    await page.getByRole("option", { name: /bulk_229/ }).waitFor();
    await input(page).fill("payments large");
    await page.getByRole("option", { name: /Large payments/ }).waitFor();
    await page.keyboard.press("Enter");
    await shown(page, "mandate");
    await page.close();
  });

  it("opens by Ctrl-K, Cmd-K and its button, and leads to an agent by the keyboard alone.", async () => {
    const page = await open();
    for (const press of [
      () => page.keyboard.press("Meta+k"),
      () => page.click("[data-action=find]"),
      () => page.keyboard.press("Control+k"),
    ]) {
      await press();
      await input(page).waitFor();
      await page.keyboard.press("Escape");
      await input(page).waitFor({ state: "detached" });
    }
    await openPalette(page);
    await page.keyboard.type("pay-b");
    await page.locator(`[role=option][data-id="${agentId}"]`).waitFor();
    expect(await input(page).getAttribute("aria-activedescendant")).to.equal(await chosen(page).getAttribute("id"));
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/agents/${agentId}`);
    await input(page).waitFor({ state: "detached" });
    await page.waitForFunction(() => document.title === "(1) Pay-bot · Agents · Agent Control Plane");
  });

  it("finds mandates and screens by any of their words, and moves by the arrows.", async () => {
    const page = await open();
    await openPalette(page);
    await page.keyboard.type("payments large");
    await page.locator(`[role=option][data-id="${mandateId}"]`).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/mandates/${mandateId}`);
    await shown(page, "mandate");
    await openPalette(page);
    await page.keyboard.type("s");
    await page.locator('[role=option][data-id="mandates"]').waitFor();
    const first = await chosen(page).getAttribute("data-id");
    await page.keyboard.press("ArrowDown");
    expect(await chosen(page).getAttribute("data-id")).not.to.equal(first);
    await page.keyboard.press("ArrowUp");
    expect(await chosen(page).getAttribute("data-id")).to.equal(first);
    while ((await chosen(page).getAttribute("data-id")) !== "mandates") await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await shown(page, "mandates");
  });

  it("leads to the thing of a pasted id at once.", async () => {
    const page = await open();
    for (const [id, path] of [
      [decisionId, "decisions"],
      [escalationId, "escalations"],
      [agentId, "agents"],
      [mandateId, "mandates"],
    ] as const) {
      await openPalette(page);
      await input(page).waitFor();
      await page.keyboard.insertText(` ${id} `);
      await page.waitForURL(`**/${path}/${id}`);
      await input(page).waitFor({ state: "detached" });
    }
  });

  it("leads from `revoke` and a name to the agent's revocation.", async () => {
    const page = await open();
    await openPalette(page);
    await page.keyboard.type("revoke pay-bot");
    await page.locator(`[role=option][data-id="revoke-${agentId}"]`).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Revoke the agent everywhere?" }).waitFor();
    await page.click("[data-action=cancel]");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(page.url()).to.match(new RegExp(`/agents/${agentId}$`));
  });

  it("gives commands: halting, the theme, signing out.", async () => {
    const page = await open();
    await openPalette(page);
    await page.keyboard.type("theme dark");
    await page.locator("[role=option][data-id=command-theme-dark][aria-selected=true]").waitFor();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.documentElement.style.colorScheme === "dark");
    await page.locator("[data-action=halt]").waitFor();
    await openPalette(page);
    await page.keyboard.type("halt");
    await page.locator("[role=option][data-id=command-halt]").waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Halt the workspace" }).waitFor();
    await page.click("[data-action=cancel]");
    await openPalette(page);
    await page.keyboard.type("sign out");
    await page.locator("[role=option][data-id=command-sign-out]").waitFor();
    await page.keyboard.press("Enter");
    await shown(page, "sign-in");
  });

  it("offers an auditor nothing that changes anything.", async () => {
    const page = await open("/overview", { key: await keyOf("auditor") });
    await openPalette(page);
    await page.locator("[role=option][data-id=command-sign-out]").waitFor();
    expect(await page.locator("[role=option][data-id=command-halt], [role=option][data-id=keys]").count()).to.equal(0);
    await page.keyboard.type("revoke pay-bot");
    await page.getByText("Nothing is called that").waitFor();
    expect(await page.locator("[role=option]").count()).to.equal(0);
  });

  it("shows hostile names inert.", async () => {
    const page = await open();
    await openPalette(page);
    await page.keyboard.type("pay <img");
    await page.locator("[role=option]", { hasText: HOSTILE }).waitFor();
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).to.equal(undefined);
  });

  it("says that a list could not be read, and shows the others.", async () => {
    const page = await open();
    await page.route("**/ListMandates", (route) => route.fulfill({ status: 503, body: "{}" }));
    await openPalette(page);
    await page.keyboard.type("pay");
    await page.locator(`[role=option][data-id="${agentId}"]`).waitFor();
    await page.locator(".find .fault-text").waitFor();
  });

  it("goes to a screen by `g` and a letter, and shows the keys by `?`.", async () => {
    const page = await open();
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await shown(page, "mandates");
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keys" });
    await dialog.getByText("find anything").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("o");
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    expect(new URL(page.url()).pathname).to.equal("/mandates");
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await shown(page, "escalations");
  });

  it("answers no escalation by the letter after `g`.", async () => {
    const page = await open("/escalations");
    await page.locator(`[data-id="${escalationId}"]`).first().waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await shown(page, "agents");
    const { escalation } = await rest(`GET /v1/enforce/escalations/${escalationId}`);
    expect((escalation as unknown as { status: string }).status).to.equal("pending");
  });

  it("leaves letters to a field, and to nothing once single keys are off.", async () => {
    const page = await open("/agents");
    const field = page.locator("main input").first();
    await field.click();
    await page.keyboard.type("go?");
    expect(await field.inputValue()).to.equal("go?");
    await shown(page, "agents");
    await field.blur();
    await page.keyboard.press("?");
    await page.locator("[role=dialog] [name=shortcuts]").uncheck();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("o");
    await page.keyboard.press("?");
    await openPalette(page);
    await input(page).waitFor();
    expect(await page.getByRole("dialog").count()).to.equal(1);
    expect(new URL(page.url()).pathname).to.equal("/agents");
  });

  it("names the thing in the title of each page.", async () => {
    const page = await open(`/decisions/${decisionId}`);
    const ends = (end: string) =>
      page.waitForFunction((text) => document.title.endsWith(`${text} · Agent Control Plane`), end);
    await ends("escalate pay · Decisions");
    await page.goto(`/escalations/${escalationId}`);
    await ends("pay · Escalations");
    await page.goto(`/mandates/${mandateId}`);
    await ends("Large payments · Mandates");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await open("/overview", appearance);
      await page.click("[data-action=find]");
      await page.locator("[role=option]").first().waitFor();
      await page.keyboard.type("pay");
      await page.locator(`[role=option][data-id="${agentId}"]`).waitFor();
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `find-${name}`);
      await page.keyboard.press("Escape");
      await input(page).waitFor({ state: "detached" });
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await assertAccessible(page);
      await screenshot(page, `find-keys-${name}`);
    });
  }
});
