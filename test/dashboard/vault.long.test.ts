import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  GetCheckpointResponseSchema,
  GetConsistencyProofResponseSchema,
  ListEntriesResponseSchema,
} from "../../gen/agentcontrol/v1/vault_service_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const AGENTCTL = join(import.meta.dirname, "..", "..", "src", "cli", "agentctl.ts");
const HOSTILE = '<img src=x onerror="window.hacked=1">\u202e\u200b';
const ROW = "[data-screen=evidence] li[data-id]";

describeInBrowser("the vault", () => {
  let dashboard: Dashboard;
  let agentId: string;

  const act = (action_type = "read.a") =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type, action_content: HOSTILE });
  const ready = async (page: Page): Promise<Page> => {
    await page.waitForSelector("[data-panel=checkpoint] [data-verdict]");
    return page;
  };
  const agentctl = async (...given: string[]): Promise<string> =>
    (await promisify(execFile)(process.execPath, [AGENTCTL, ...given])).stdout;

  before(async () => {
    dashboard = await openDashboard();
    agentId = await dashboard.service.agent('<img src=x onerror="window.hacked=1">');
    for (let count = 0; count < 150; count++) await act();
  });
  after(() => dashboard.close());

  it("verifies the checkpoint, and keeps it for the next visit.", async () => {
    const page = await ready(await dashboard.open("/vault"));
    await page.waitForSelector("[data-panel=checkpoint] [data-verdict=holds]");
    await page.waitForSelector("[data-growth=first]");
    await page.reload();
    await page.getByText("Nothing was appended, and nothing changed.").waitFor();
    for (let count = 0; count < 3; count++) await act();
    await page.reload();
    await page.getByText("3 entries were appended, and nothing before was changed.").waitFor();
    expect(await page.locator("[data-panel=growth] [data-state=holds]").count()).to.equal(2);
  });

  it("raises an alarm when the log does not continue what was kept, until that is forgotten.", async () => {
    const page = await ready(await dashboard.open("/vault"));
    await page.waitForSelector("[data-growth=first]");
    await act();
    await page.route("**/GetConsistencyProof", async (route) => {
      const response = await route.fetch();
      const message = fromBinary(GetConsistencyProofResponseSchema, await response.body());
      const [first] = message.path;
      if (first !== undefined) first[0] = (first[0] ?? 0) ^ 1;
      await route.fulfill({ response, body: Buffer.from(toBinary(GetConsistencyProofResponseSchema, message)) });
    });
    await page.reload();
    await page.waitForSelector("[data-growth=fails]");
    await page.waitForSelector("[data-step=growth][data-state=fails]");
    await assertAccessible(page);
    await screenshot(page, "vault-alarm");
    await page.unroute("**/GetConsistencyProof");
    // A later visit proves it, since the alarm kept the earlier checkpoint.
    await page.reload();
    await page.waitForSelector("[data-growth=holds]");
    await page.evaluate(() => {
      const [key = ""] = Object.keys(localStorage).filter((name) => name.startsWith("acp-checkpoint"));
      const kept = JSON.parse(localStorage.getItem(key) ?? "{}") as { note: string };
      localStorage.setItem(key, JSON.stringify({ ...kept, note: kept.note.replace(/\n\d+\n/, "\n999999\n") }));
    });
    await page.reload();
    await page.waitForSelector("[data-growth=fails]");
    await page.click("[data-action=forget]");
    await page.click("[data-action=confirm]");
    await page.waitForSelector("[data-growth=first]");
  });

  it("refuses a checkpoint that was changed.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    await page.route("**/GetCheckpoint", async (route) => {
      const response = await route.fetch();
      const message = fromBinary(GetCheckpointResponseSchema, await response.body());
      message.note = message.note.replace(/\n(\d+)\n/, (_, size: string) => `\n${Number(size) + 1}\n`);
      message.treeSize += 1n;
      await route.fulfill({ response, body: Buffer.from(toBinary(GetCheckpointResponseSchema, message)) });
    });
    await page.evaluate(() => history.pushState(null, "", "/vault"));
    await page.waitForSelector('[data-verdict=fails][data-failed-step="signature"]');
    expect(await page.locator("[data-panel=growth]").count()).to.equal(0);
  });

  it("lists every entry, and proves any of them.", async () => {
    const page = await dashboard.open("/evidence");
    await page.waitForSelector(ROW);
    const newest = Number(await page.locator(ROW).first().getAttribute("data-id"));
    expect(newest).to.be.at.least(150);
    expect(await page.getAttribute("input[name=from]", "placeholder")).to.equal(String(newest));
    await page.fill("input[name=from]", "0");
    await page.click("[data-action=jump]");
    await page.waitForSelector(`${ROW}[data-id="0"]`);
    expect(await page.locator(ROW).count()).to.equal(1);
    await page.locator(`${ROW}[data-id="0"] a`).click();
    await page.waitForSelector("[role=dialog] [data-verdict=holds]");
    expect(await page.locator("[role=dialog]").innerText()).to.contain("workspace_created");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[role=dialog]", { state: "detached" });
    await page.goto(`/vault?entry=${newest}`);
    await page.waitForURL(`**/evidence?entry=${newest}`);
    await page.waitForSelector("[role=dialog] [data-verdict=holds]");
    await page.getByText("Open the decision").click();
    await page.waitForSelector("[data-screen=decision]");
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).to.equal(undefined);
  });

  it("reads older entries as it is scrolled, and keeps few rows in the page.", async () => {
    const page = await dashboard.open("/evidence");
    await page.waitForSelector(ROW);
    const list = page.getByRole("region", { name: "Entries, newest first" });
    while ((await page.locator(`${ROW}[data-id="0"]`).count()) === 0) {
      await list.evaluate(async (element) => {
        element.scrollTo(0, element.scrollHeight);
        await new Promise(requestAnimationFrame);
      });
    }
    expect(await page.locator(ROW).count()).to.be.at.most(60);
  });

  it("refuses an entry whose text was changed, and names the step.", async () => {
    const page = await dashboard.open("/overview");
    await page.waitForSelector("[data-screen=overview]");
    await page.route("**/ListEntries", async (route) => {
      const response = await route.fetch();
      const message = fromBinary(ListEntriesResponseSchema, await response.body());
      for (const entry of message.entries) entry.body = entry.body.replace('"read.a"', '"read.b"');
      await route.fulfill({ response, body: Buffer.from(toBinary(ListEntriesResponseSchema, message)) });
    });
    await page.evaluate(() => history.pushState(null, "", "/evidence?entry=20"));
    await page.waitForSelector('[role=dialog] [data-verdict=fails][data-failed-step="leaf"]');
  });

  it("gives files that agentctl verifies.", async () => {
    const page = await dashboard.open("/evidence");
    const [log] = await Promise.all([page.waitForEvent("download"), page.click("[data-action=download-log]")]);
    const path = await log.path();
    expect(await agentctl("vault", "verify", path)).to.contain("VERIFIED: every entry of the log");
    await page.click("[data-nav=vault]");
    const [note] = await Promise.all([page.waitForEvent("download"), page.click("[data-action=download-note]")]);
    expect(await readFile(await note.path(), "utf8")).to.match(/^agent-control-plane\/vault\/default\n\d+\n/);
    const report = await agentctl("vault", "verify", path, "--checkpoint", await note.path());
    expect(report).to.contain("VERIFIED");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await ready(await dashboard.open("/vault", appearance));
      await page.waitForSelector("[data-growth]");
      await assertAccessible(page);
      await screenshot(page, `vault-${name}`);
      await page.goto("/evidence");
      await page.waitForSelector(ROW);
      await assertAccessible(page);
      await screenshot(page, `evidence-${name}`);
      await page.locator(ROW).first().locator("a").click();
      await page.waitForSelector("[role=dialog] [data-verdict]");
      await assertAccessible(page);
      await screenshot(page, `vault-entry-${name}`);
    });
  }
});
