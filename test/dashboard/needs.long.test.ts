import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType, SequenceMode } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision, Scope } from "../../gen/agentcontrol/v1/resources_pb.js";
import { RevocationService } from "../../gen/agentcontrol/v1/revocation_service_pb.js";
import { WebhookService } from "../../gen/agentcontrol/v1/webhook_service_pb.js";
import { startToolsServer, type ToolsServer, tool } from "../gateway/tools-server.ts";
import { until } from "../support/harness.ts";
import {
  APPEARANCES,
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const action = (decision: Decision, pattern: string) => ({
  type: RuleType.ACTION,
  decision,
  conditions: { matchActionTypes: [pattern] },
});
const velocity = (type: string, maxCount: bigint) => ({
  type: RuleType.SEQUENCE,
  decision: Decision.BLOCK,
  conditions: {
    mode: SequenceMode.VELOCITY,
    matchActionTypes: [type],
    maxCount,
    windowSeconds: 3_600n,
    scope: Scope.AGENT,
  },
});

describeInBrowser("what needs a person", () => {
  let dashboard: Dashboard;
  let receiver: Server;
  let upstream: ToolsServer;
  let agentId: string;
  let mallory: string;
  let revocationId: string;

  const act = (action_type: string, id = agentId) =>
    dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: id, action_type });
  const badge = (page: Page, name: string) => page.locator(`.side [data-count=${name}]`);

  before(async () => {
    receiver = createServer((_, response) => response.writeHead(503).end());
    receiver.listen(0, "127.0.0.1");
    await once(receiver, "listening");
    dashboard = await openDashboard({
      env: { ACP_WEBHOOK_ALLOW: "127.0.0.0/8", ACP_MCP_ALLOW: "127.0.0.0/8" },
      rules: [
        action(Decision.BLOCK, "drop.*"),
        action(Decision.ESCALATE, "ask.*"),
        { ...action(Decision.ESCALATE, "later.*"), escalationTtlSeconds: 600 },
        { ...action(Decision.ESCALATE, "sooner.*"), escalationTtlSeconds: 240 },
        velocity("pay.*", 5n),
        velocity("mail.*", 5n),
      ],
    });
    const { service } = dashboard;
    agentId = await service.agent("payer <b>x</b>\u00a0y");
    mallory = await service.agent("Mallory");
    const { port } = receiver.address() as AddressInfo;
    await service.rest("POST /v1/enforce/webhooks", {
      url: `http://127.0.0.1:${port}/hook`,
      events: ["escalation.created", "agent.revoked"],
    });
    for (const type of ["pay.a", "pay.b", "pay.c", "pay.d", "mail.a", "ask.a", "ask.b"]) await act(type);
    for (let each = 0; each < 6; each++) await act("drop.table");
    const revocation = await service.admin
      .client(RevocationService)
      .revokeAgent({ agentId: mallory, reason: "it lied" });
    revocationId = revocation.revocationId;
    upstream = await startToolsServer([tool("pay")]);
    const servers = "POST /v1/enforce/mcp-servers";
    await service.rest(servers, { name: "bank", url: upstream.url, mode: "quarantine" });
    await service.rest(`${servers}/bank:refresh`, {});
    await service.rest(`${servers}/bank/tools/pay:accept`, { version: 1 });
    upstream.tools = [tool("pay", { description: "pays twice" }), tool("read")];
    await service.rest(`${servers}/bank:refresh`, {});
    const gone = await startToolsServer([tool("pay")]);
    await service.rest(servers, { name: "gone", url: gone.url });
    await gone.close();
    await service.rest(`${servers}/gone:refresh`, {}).catch(() => undefined);
    await until(async () => {
      const { webhooks } = await service.admin.client(WebhookService).listWebhooks({});
      return webhooks.some(({ failures }) => failures > 0);
    });
  });
  after(async () => {
    await dashboard?.close();
    receiver?.close();
    await upstream?.close();
  });

  describe("is counted beside the screens' names", () => {
    it("on a wide page, with words for screen readers.", async () => {
      const page = await dashboard.open("/keys");
      for (const [name, count] of [
        ["escalations", "2"],
        ["decisions", "6"],
        ["limits", "1"],
        ["agents", "1"],
        ["servers", "2"],
        ["webhooks", "1"],
      ] as const) {
        await badge(page, name).getByText(count, { exact: true }).waitFor();
      }
      await page.getByRole("link", { name: "Limits 1 nearly full", exact: true }).waitFor();
      await page.getByRole("link", { name: "Decisions 6 blocked in the last hour, more than usual" }).waitFor();
      expect(await page.locator("[data-action=needs]").isVisible()).to.equal(false);
    });

    it("on a phone in one button, which opens the overview.", async () => {
      const page = await dashboard.open("/keys", { width: 390 });
      const button = page.getByRole("link", { name: "8 things need you", exact: true });
      await button.click();
      await page.waitForSelector("[data-screen=overview]");
    });

    it("to auditors too.", async () => {
      const { secret } = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
      const page = await dashboard.open("/limits", { key: secret ?? "" });
      await badge(page, "limits").getByText("1", { exact: true }).waitFor();
      await badge(page, "agents").getByText("1", { exact: true }).waitFor();
    });

    it("until a revocation's certificate was opened in this browser.", async () => {
      const page = await dashboard.open("/keys");
      await badge(page, "agents").getByText("1", { exact: true }).waitFor();
      await page.goto(`/agents/${mallory}`);
      await page.waitForSelector(`[data-certificate=${revocationId}]`);
      await badge(page, "agents").getByText("1", { exact: true }).waitFor({ state: "detached" });
      await page.reload();
      await badge(page, "limits").getByText("1", { exact: true }).waitFor();
      expect(await badge(page, "agents").innerText()).to.equal("");
    });
  });

  describe("stands in the first card of the overview", () => {
    const card = (page: Page) => page.getByRole("region", { name: "What needs you" });
    const item = (page: Page, kind: string) => card(page).locator(`[data-need=${kind}]`);
    const open = (options = {}) => dashboard.open("/overview", options);

    it("each with its cause and its next step, the most urgent first.", async () => {
      const page = await open();
      for (const kind of ["blocks", "incident", "limit", "server", "webhook", "waiting"]) {
        await item(page, kind).first().waitFor();
      }
      const kinds = await card(page)
        .locator("[data-need]")
        .evaluateAll((all) => all.map(({ dataset }) => dataset.need));
      expect(kinds).to.deep.equal(["blocks", "incident", "server", "limit", "server", "webhook", "waiting"]);
      const limit = await item(page, "limit").innerText();
      expect(limit).to.match(/^4 of 5\s+payer <b>x<\/b>U\+00A0y has nearly used up pay\.\*/);
      expect(limit).to.contain("house rules, within 1 h: 1 more passes, then the next is blocked.");
      expect(await card(page).locator("b").count()).to.equal(0);
      const steps: Readonly<Record<string, RegExp>> = {
        blocks: /^\/decisions\?decision=block&since=/,
        incident: new RegExp(`^/agents/${mallory}$`),
        limit: new RegExp(`^/limits\\?agent=${agentId}$`),
        webhook: /^\/webhooks\/wh_/,
        waiting: /^\/escalations$/,
      };
      for (const [kind, href] of Object.entries(steps)) {
        expect(await item(page, kind).getByRole("link").getAttribute("href"), kind).to.match(href);
      }
      expect(await item(page, "incident").innerText())
        .to.contain("agent Mallory was revoked")
        .and.to.contain("it lied");
      expect(await item(page, "webhook").innerText()).to.match(/3 events wait; \d+ attempts? failed/);
      expect(await item(page, "blocks").innerText()).to.contain("6 actions blocked in the last hour");
    });

    it("an MCP server that changed and one that is away, until the change is accepted.", async () => {
      const page = await open();
      const server = (name: string) => card(page).locator(`[data-need=server][data-id=${name}]`);
      expect(await server("gone").innerText())
        .to.match(/^away\s+MCP server gone\s+Went away .* ago: cannot be reached\./)
        .and.to.contain("Look at the server");
      expect(await server("bank").innerText()).to.match(
        /^changed\s+MCP server bank\s+1 changed definition and 1 new definition wait to be accepted/,
      );
      await server("bank").getByRole("link", { name: "Look at the changes MCP server bank" }).click();
      for (const name of ["pay", "read"]) {
        await page.locator(`li[data-id=${name}] [data-action=look]`).click();
        await page.getByRole("dialog").locator("[data-action=accept]").click();
        await page.getByRole("dialog").locator("[data-accepted]").waitFor();
        await page.click("[data-action=close]");
      }
      await badge(page, "servers").getByText("1", { exact: true }).waitFor();
    });

    it("with what came in while the pointer was on it only once the pointer has left.", async () => {
      const page = await open();
      await item(page, "waiting").hover();
      const before = await card(page).locator("[data-need]").count();
      const { escalation_id: id } = await act("sooner.y");
      await card(page).getByText("1 more came in.").waitFor();
      expect(await card(page).locator("[data-need]").count()).to.equal(before);
      await page.mouse.move(1, 1);
      await item(page, "escalation").waitFor();
      await dashboard.service.resolve(String(id), "rejected");
      await item(page, "escalation").waitFor({ state: "detached" });
    });

    it("without moving anything else of the overview when escalations come in.", async () => {
      const page = await open();
      await item(page, "waiting").getByText("2 escalations").waitFor();
      await page.waitForSelector(".outcome-chart canvas");
      await page.getByRole("region", { name: "Most frequent reasons" }).waitFor();
      await page.evaluate(() => {
        const shifts: number[] = [];
        Object.assign(window, { shifts });
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[]) {
            if (!entry.hadRecentInput) shifts.push(entry.value);
          }
        }).observe({ type: "layout-shift" });
      });
      const ids: string[] = [];
      for (let each = 0; each < 10; each++) ids.push(String((await act(`ask.${each + 10}`)).escalation_id));
      await item(page, "waiting").getByText("12 escalations").waitFor();
      await badge(page, "escalations").getByText("12", { exact: true }).waitFor();
      const shifts = await page.evaluate(() => (window as unknown as { shifts: number[] }).shifts);
      expect(shifts.reduce((sum, value) => sum + value, 0)).to.be.at.most(0.01);
      for (const id of ids) await dashboard.service.resolve(id, "rejected");
    });

    it("escalations that expire soon with the time left, the first to expire first.", async () => {
      const page = await open();
      await item(page, "waiting").getByText("2 escalations").waitFor();
      const { escalation_id: later } = await act("later.x");
      const { escalation_id: sooner } = await act("sooner.x");
      await item(page, "escalation").nth(1).waitFor();
      const ids = await item(page, "escalation").evaluateAll((all) => all.map(({ dataset }) => dataset.id));
      expect(ids).to.deep.equal([sooner, later]);
      const first = item(page, "escalation").first();
      expect(await first.innerText())
        .to.match(/^[34] min/)
        .and.to.contain("wants sooner.x");
      await item(page, "waiting").getByText("2 more escalations").waitFor();
      await first.getByRole("link", { name: /^Answer payer .* wants sooner\.x$/ }).click();
      await page.waitForSelector(`[data-screen=escalations] [data-id="${sooner}"]`);
      for (const id of [later, sooner]) await dashboard.service.resolve(String(id), "rejected");
      await page.goBack();
      await item(page, "escalation").first().waitFor({ state: "detached" });
    });

    it("without a revocation that was marked as seen, which keeps its place under the pointer.", async () => {
      const page = await open();
      const seen = item(page, "incident").locator("[data-action=seen]");
      await seen.click();
      await seen.getByText("✓ Seen").waitFor();
      await badge(page, "agents").getByText("1", { exact: true }).waitFor({ state: "detached" });
      await page.mouse.move(1, 1);
      await item(page, "incident").waitFor({ state: "detached" });
      await page.reload();
      await item(page, "limit").waitFor();
      expect(await item(page, "incident").count()).to.equal(0);
    });

    it("but for a list that could not be read, which it says.", async () => {
      const page = await open();
      await item(page, "limit").waitFor();
      let isDown = true;
      await page.route("**/*MandateService/ListLimits", (route) =>
        isDown ? route.fulfill({ status: 403, contentType: "application/json", body: "{}" }) : route.continue(),
      );
      await page.reload();
      await card(page).locator("[data-fault=limits]").getByText("The limits could not be read").waitFor();
      await item(page, "webhook").waitFor();
      expect(await item(page, "limit").count()).to.equal(0);
      isDown = false;
      await card(page).locator("[data-action=retry]").click();
      await item(page, "limit").waitFor();
      expect(await card(page).locator("[data-fault]").count()).to.equal(0);
    });

    it("or says that nothing needs anyone.", async () => {
      const { key } = await dashboard.service.workspace("quiet");
      const page = await open({ key });
      await card(page).getByText("Nothing needs you.").waitFor();
      const lookedAt = card(page).locator("[data-looked-at]");
      expect(await lookedAt.evaluateAll((all) => all.map(({ dataset }) => dataset.lookedAt))).to.deep.equal([
        "escalations",
        "blocked decisions",
        "unknown outcomes",
        "incidents",
        "proposals",
        "limits",
        "MCP servers",
        "webhooks",
      ]);
      await card(page)
        .getByText(/^Looked /)
        .waitFor();
      expect(await page.locator("[data-action=needs] [data-count]").textContent()).to.equal("0");
    });

    for (const { name, ...appearance } of [...APPEARANCES, { name: "narrow", width: 1_024 } as const]) {
      it(`accessibly (${name}).`, async () => {
        const page = await open(appearance);
        await item(page, "limit").waitFor();
        await page.waitForSelector(".outcome-chart canvas");
        await assertAccessible(page);
        await assertFits(page);
        await screenshot(page, `needs-${name}`);
      });
    }
  });
});
