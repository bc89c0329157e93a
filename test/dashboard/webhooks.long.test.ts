import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { Page } from "playwright-core";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

describeInBrowser("the webhooks", () => {
  let dashboard: Dashboard;
  let page: Page;
  let receiver: Server;
  let url: string;
  let answer = 200;
  const heard: string[] = [];

  before(async () => {
    receiver = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => {
        heard.push((JSON.parse(text) as { type: string }).type);
        response.writeHead(answer).end();
      });
    });
    receiver.listen(0, "127.0.0.1");
    await once(receiver, "listening");
    url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook?q=<b>`;
    dashboard = await openDashboard({ env: { ACP_WEBHOOK_ALLOW: "127.0.0.0/8" } });
    page = await dashboard.open("/webhooks");
    await page.getByText("Nobody is told").waitFor();
  });
  after(async () => {
    await dashboard.close();
    receiver.close();
  });

  it("are added, with faults at their fields and the secret shown once.", async () => {
    await page.click("[data-action=create]");
    await page.fill("input[name=url]", "http://10.1.2.3/hook");
    await page.click("[data-action=confirm]");
    const fault = page.locator(".field", { has: page.locator("input[name=url]") }).locator(".fault-text");
    await fault.waitFor();
    expect(await fault.innerText()).to.match(/^leads to an address that is not allowed/);
    await page.fill("input[name=url]", url);
    await page.click("[data-action=confirm]");
    expect(await page.locator("[data-secret]").innerText()).to.match(/^whsec_/);
    await page.click("[data-action=stored]");
    const row = page.locator("[data-id^=wh_]");
    await row.waitFor();
    expect(await row.locator(".shown").first().innerText()).to.equal(url);
  });

  it("are tested, and say what came of it.", async () => {
    await page.click("[data-id^=wh_] a");
    await page.click("[data-action=test]");
    await page.getByText(/Test: answered 200/).waitFor();
    expect(heard.at(-1)).to.equal("webhook.test");
    await page.locator(".delivery", { hasText: "webhook.test" }).first().waitFor();
    answer = 503;
    await page.click("[data-action=test]");
    await page.getByText(/Test: answered 503/).waitFor();
    await page.locator(".delivery", { hasText: "failed" }).first().waitFor();
    answer = 200;
  });

  it("deliver what happens, and again from an entry of the log.", async () => {
    const agentId = await dashboard.service.agent();
    await dashboard.service.rest("POST /v1/enforce/mandates", {
      name: "ask",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["pay"] } }],
    });
    await dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: "pay" });
    const delivered = page.locator(".delivery", { hasText: "escalation.created" });
    await delivered.first().waitFor();
    await page.click("[data-action=replay]");
    for (const none of ["", "x", "-1", "1.5"]) {
      await page.fill("input[name=from_seq]", none);
      await page.click("[data-action=confirm]");
      await page.locator(".field .fault-text").waitFor();
    }
    await page.fill("input[name=from_seq]", "999");
    await page.click("[data-action=confirm]");
    await page.getByText(/must be at most `?next_seq/).waitFor();
    await page.fill("input[name=from_seq]", "0");
    await page.click("[data-action=confirm]");
    await delivered.nth(1).waitFor();
    expect(heard.filter((type) => type === "escalation.created").length).to.equal(2);
  });

  it("deliver one that failed again, from its row.", async () => {
    answer = 500;
    await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: await dashboard.service.agent(),
      action_type: "pay",
    });
    const failed = page.locator(".delivery", { hasText: "failed" }).filter({ hasText: "escalation.created" });
    await failed.first().waitFor();
    await page.getByText(/attempts? failed/).waitFor();
    await page.getByText(/^next/).first().waitFor();
    expect(await failed.first().innerText()).to.contain("500");
    await screenshot(page, "webhook-deliveries");
    const before = heard.length;
    answer = 200;
    await failed.first().locator("[data-action=replay-from]").click();
    await page.click("[data-action=confirm]");
    await page.getByText("delivers", { exact: true }).waitFor();
    await page.locator("[data-index='0'] .delivery", { hasText: /^delivered\s*escalation\.created/ }).waitFor();
    expect(heard.slice(before)).to.deep.equal(["escalation.created"]);
  });

  it("keep at least one event.", async () => {
    await page.click("[data-action=edit]");
    for (const event of ["escalation.created", "escalation.resolved"]) await page.uncheck(`input[value="${event}"]`);
    await page.click("[data-action=confirm]");
    await page.getByText("choose 1 or more").waitFor();
    await page.click("[data-action=cancel]");
  });

  it("show hostile addresses inert.", async () => {
    const hostile = `${url}\u202e<img src=x onerror=alert(1)>\u200b`;
    const { webhook } = await dashboard.service.rest("POST /v1/enforce/webhooks", {
      url: hostile,
      events: ["tool.changed"],
    });
    const { webhook_id: id } = webhook as unknown as { webhook_id: string };
    const shown = await dashboard.open("/webhooks");
    const row = shown.locator(`[data-id=${id}]`);
    await row.waitFor();
    expect(await row.innerText()).not.to.match(/[\u202e\u200b]/);
    expect(await shown.locator("main img").count()).to.equal(0);
    await dashboard.service.rest(`DELETE /v1/enforce/webhooks/${id}`);
    await shown.context().close();
  });

  it("are changed, get a new secret, and are deleted.", async () => {
    await page.click("[data-action=edit]");
    await page.uncheck("input[name=is_active]");
    await page.click("[data-action=confirm]");
    await page.getByText("inactive", { exact: true }).waitFor();
    await page.click("[data-action=rotate]");
    await page.click("[data-action=confirm]");
    expect(await page.locator("[data-secret]").innerText()).to.match(/^whsec_/);
    await page.click("[data-action=stored]");
    const auditor = await dashboard.service.rest("POST /v1/admin/keys", { name: "a", role: "auditor" });
    const reading = await dashboard.open(page.url(), { key: auditor.secret ?? "" });
    await reading.waitForSelector("[data-id^=wh_]");
    expect(await reading.locator("[data-action=delete], [data-action=test]").count()).to.equal(0);
    await page.click("[data-action=delete]");
    await page.click("[data-action=confirm]");
    await page.getByText("Nobody is told").waitFor();
  });

  it("of the redaction proxy are added, switched and deleted.", async () => {
    await page.goto("/webhooks?kind=redaction");
    await page.getByText("Nobody is told").waitFor();
    await page.click("[data-action=create]");
    await page.fill("input[name=url]", url);
    await page.click("[data-action=confirm]");
    await page.click("[data-action=deactivate]");
    await page.click("[data-action=activate]");
    await page.locator("[data-action=deactivate]").waitFor();
    await page.click("[data-action=edit]");
    await page.fill("input[name=url]", "http://10.1.2.3/");
    await page.click("[data-action=confirm]");
    await page.locator(".field .fault-text").waitFor();
    await page.fill("input[name=url]", `${url}2`);
    await page.click("[data-action=confirm]");
    await page.getByText(`${url}2`).waitFor();
    const auditor = await dashboard.service.rest("POST /v1/admin/keys", { name: "r", role: "auditor" });
    const reading = await dashboard.open(page.url(), { key: auditor.secret ?? "" });
    await reading.waitForSelector("[data-id^=wh_]");
    expect(await reading.locator("main [data-action]").count()).to.equal(0);
    await page.click("[data-action=delete]");
    await page.click("[data-action=confirm]");
    await page.getByText("Nobody is told").waitFor();
  });

  for (const { name, ...appearance } of APPEARANCES) {
    it(`are accessible (${name}).`, async () => {
      const { webhook } = await dashboard.service.rest("POST /v1/enforce/webhooks", { url, events: ["tool.changed"] });
      const shown = await dashboard.open("/webhooks", appearance);
      await shown.waitForSelector("[data-id^=wh_]");
      await assertColumns(shown, "Webhooks", ["Address", "Events", "State", "Next entry", "Added"]);
      await assertAccessible(shown);
      await screenshot(shown, `webhooks-${name}`);
      await shown.goto(`/webhooks/${(webhook as unknown as { webhook_id: string }).webhook_id}`);
      await shown.click("[data-action=test]");
      await shown.waitForSelector(".delivery");
      const columns = ["Outcome", "Event", "Entry", "Attempt", "Answer", "Took", "When", "Actions"];
      await assertColumns(shown, "Deliveries", columns);
      await assertAccessible(shown);
      await screenshot(shown, `webhook-${name}`);
      await shown.click("[data-action=edit]");
      await assertAccessible(shown);
      await screenshot(shown, `webhook-edit-${name}`);
      await dashboard.service.rest("POST /api/redact/default/webhooks", { url });
      await shown.goto("/webhooks?kind=redaction");
      await shown.waitForSelector("[data-id^=wh_]");
      await assertColumns(shown, "Redaction webhooks", ["Address", "State", "Requests", "Added", "Actions"]);
      await assertAccessible(shown);
      await screenshot(shown, `redaction-webhooks-${name}`);
    });
  }
});
