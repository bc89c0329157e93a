import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { GetDecisionResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const AGENTCTL = join(import.meta.dirname, "..", "..", "src", "cli", "agentctl.ts");
const NAME = '=<img src=x onerror="window.hacked=1">';
const HOSTILE = `${NAME}\u202e`;
const FILES = {
  table: "decisions.csv",
  report: "report.html",
  "report-note": "checkpoint.txt",
  "report-keys": "keys.json",
} as const;

describeInBrowser("a report for an auditor", () => {
  let dashboard: Dashboard;
  let folder: string;
  let agentId: string;
  let otherId: string;
  let mandateId: string;

  before(async () => {
    dashboard = await openDashboard();
    folder = await mkdtemp(join(tmpdir(), "acp-report-"));
    const { service } = dashboard;
    const rule = { type: "action", decision: "block", conditions: { match_action_types: ["delete*"] } };
    const made = await service.rest("POST /v1/enforce/mandates", { name: NAME, rules: [rule] });
    mandateId = (made.mandate as unknown as { mandate_id: string }).mandate_id;
    [agentId, otherId] = [await service.agent(NAME), await service.agent("other")];
    const act = (agent_id: string, action_type: string) =>
      service.rest("POST /v1/enforce/intercept", { agent_id, action_type, action_content: HOSTILE });
    for (let count = 0; count < 30; count++) await act(agentId, count % 10 === 0 ? "delete.all" : "read.a");
    for (let count = 0; count < 5; count++) await act(otherId, "read.b");
  });
  after(async () => {
    await dashboard?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const open = async (appearance = {}): Promise<Page> => {
    const page = await dashboard.open("/evidence", appearance);
    await page.waitForSelector("[data-action=make-report]");
    return page;
  };
  const make = async (page: Page, rows: number): Promise<void> => {
    await page.click("[data-action=make-report]");
    await page.waitForSelector(`[data-report="${rows}"]`);
  };
  const saved = async (page: Page, action: string): Promise<string> => {
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(`[data-action=download-${action}]`)]);
    return readFile(await file.path(), "utf8");
  };
  const agentctl = async (...given: readonly string[]): Promise<string> => {
    const env = { ...process.env, AGENTCTL_KEY: dashboard.service.adminKey };
    return (await promisify(execFile)(process.execPath, [AGENTCTL, ...given], { env })).stdout;
  };
  let reports = 0;
  const tableOfAgentctl = async (...options: readonly string[]): Promise<string> => {
    const out = join(folder, `report-${reports++}`);
    await agentctl("vault", "report", "--url", dashboard.service.http, "--out", out, ...options);
    return readFile(join(out, FILES.table), "utf8");
  };

  it("is the same, byte for byte, as that of agentctl for the same question.", async () => {
    const page = await open();
    await make(page, 35);
    expect(await saved(page, "table")).to.equal(await tableOfAgentctl());
    await page.fill("[name='agent_id.search']", "other");
    await page.selectOption("[name=agent_id]", otherId);
    await make(page, 5);
    expect(await saved(page, "table")).to.equal(await tableOfAgentctl("--agent", otherId));
    await page.selectOption("[name=agent_id]", "");
    await page.fill("[name=mandate_id]", mandateId);
    await make(page, 3);
    expect(await saved(page, "table")).to.equal(await tableOfAgentctl("--mandate", mandateId));
    await page.fill("[name=mandate_id]", "");
    await page.fill("[name=until]", "2020-01-01T00:00:00");
    await make(page, 0);
    expect(await saved(page, "table")).to.equal(await tableOfAgentctl("--until", "2020-01-01T00:00:00Z"));
  });

  it("is four files that agentctl verifies, without a formula and without markup of others.", async () => {
    const page = await open();
    await make(page, 35);
    const out = await mkdtemp(join(folder, "files-"));
    for (const [action, name] of Object.entries(FILES)) await writeFile(join(out, name), await saved(page, action));
    expect(await agentctl("vault", "verify", out)).to.contain(
      "VERIFIED: 35 decisions of a report are entries of the log",
    );
    const table = await readFile(join(out, FILES.table), "utf8");
    for (const line of table.split("\r\n")) expect(line).not.to.match(/(?:^|,)"?[=+@-]/);
    expect(await readFile(join(out, FILES.report), "utf8")).not.to.match(/<img|<script/);
    expect(await page.evaluate(() => (window as unknown as { hacked?: number }).hacked)).to.equal(undefined);
  });

  it("is offered only once every row was verified in the browser.", async () => {
    const page = await open();
    await page.route("**/GetDecision", async (route) => {
      const response = await route.fetch();
      const message = fromBinary(GetDecisionResponseSchema, await response.body());
      if (message.receipt !== undefined)
        message.receipt.canonicalBody = message.receipt.canonicalBody.replace(
          '"decision":"block"',
          '"decision":"allow"',
        );
      await route.fulfill({ response, body: Buffer.from(toBinary(GetDecisionResponseSchema, message)) });
    });
    await page.click("[data-action=make-report]");
    await page.locator(".report-card [role=alert]").waitFor();
    expect(await page.locator("[data-report]").count()).to.equal(0);
    expect(await page.locator("[data-action=download-table]").count()).to.equal(0);
  });

  it("refuses another decision than the one that was asked for.", async () => {
    const page = await open();
    let first: Buffer | undefined;
    await page.route("**/GetDecision", async (route) => {
      const response = await route.fetch();
      first ??= await response.body();
      await route.fulfill({ response, body: first });
    });
    await page.click("[data-action=make-report]");
    await page.locator(".report-card [role=alert]").getByText("the service gave another decision").waitFor();
  });

  it("can be cancelled, and refuses a period that ends before it begins.", async () => {
    const page = await open();
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/ListDecisions", async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.click("[data-action=make-report]");
    await page.click("[data-action=stop-report]");
    await page.waitForSelector("[data-action=stop-report]", { state: "detached" });
    release();
    await page.unroute("**/ListDecisions");
    await page.fill("[name=since]", "2026-02-01T00:00:00");
    await page.fill("[name=until]", "2026-01-01T00:00:00");
    await page.click("[data-action=make-report]");
    await page.getByText("must be after the beginning of the period").waitFor();
    expect(await page.locator("[data-report]").count()).to.equal(0);
  });

  it("prints the report alone, every row with its fingerprint.", async () => {
    const page = await open();
    await make(page, 35);
    await page.emulateMedia({ media: "print" });
    expect(await page.locator("[data-report] tbody tr").count()).to.equal(35);
    expect(await page.locator("[data-report] tbody code").first().innerText()).to.match(/^[0-9a-f]{64}$/);
    for (const hidden of [
      "[data-action=download-log]",
      "[data-action=make-report]",
      "[data-screen=evidence] li[data-id]",
    ])
      expect(await page.locator(`${hidden} >> visible=true`).count(), hidden).to.equal(0);
    await screenshot(page, "evidence-report-print");
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`is accessible (${name}).`, async () => {
      const page = await open(appearance);
      await make(page, 35);
      await assertAccessible(page);
      await assertFits(page);
      await page.locator("[data-report]").scrollIntoViewIfNeeded();
      await screenshot(page, `evidence-report-${name}`);
    });
  }
});
