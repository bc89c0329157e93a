import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { AdminService, OutcomeTracking } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { until } from "../support/harness.ts";
import {
  APPEARANCES,
  assertAccessible,
  assertColumns,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

const AMOUNT = { amount: { type: "number" }, currency: { type: "string" } };

describeInBrowser("the outcomes of actions", () => {
  let dashboard: Dashboard;
  let payer: string;

  const pay = async (amount: number, more: object = {}): Promise<string> => {
    const made = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: payer,
      action_type: "payment.send",
      tool: "send_payment",
      metadata: { arguments: { amount, currency: "EUR" } },
      ...more,
    });
    return made.decision_id as unknown as string;
  };
  const report = (id: string, body: object) => dashboard.service.rest(`POST /v1/enforce/decisions/${id}/outcome`, body);
  const card = (page: Page) => page.getByRole("region", { name: "Outcome" });
  const open = async (id: string, appearance: object = {}): Promise<Page> => {
    const page = await dashboard.open(`/decisions/${id}`, appearance);
    await page.waitForSelector("[data-verdict=holds]");
    return page;
  };
  const textOf = async (page: Page): Promise<string> => (await card(page).innerText()).replaceAll(/\s+/g, " ");
  const setTimeLimit = (outcomeTimeoutSeconds: number) =>
    dashboard.service.admin
      .client(AdminService)
      .updateWorkspace({ workspaceId: "default", outcomeTimeoutSeconds, outcomes: OutcomeTracking.TRACKED });
  /** Makes an action whose outcome nobody reports in time. */
  const forgotten = async (amount: number): Promise<string> => {
    await setTimeLimit(1);
    const id = await pay(amount);
    await until(async () => {
      const { decision } = (await dashboard.service.rest(`GET /v1/enforce/decisions/${id}`)) as unknown as {
        readonly decision: { readonly outcome: { readonly status: string } };
      };
      return decision.outcome.status === "unknown";
    });
    await setTimeLimit(3_600);
    return id;
  };

  before(async () => {
    dashboard = await openDashboard();
    const { rest, agent } = dashboard.service;
    await rest("POST /v1/enforce/tools", {
      name: "send_payment",
      input_schema: { type: "object", properties: AMOUNT },
    });
    const sums = [{ tool: "send_payment", field: "amount" }];
    const conditions = { mode: "budget", sums, currency: "EUR", max_total: 100_000, window_seconds: 86_400 };
    await rest("POST /v1/enforce/mandates", {
      name: "Payments of a day",
      rules: [{ type: "sequence", decision: "block", conditions }],
    });
    payer = await agent("payer");
  });
  after(() => dashboard?.close());

  describe("stand on the page of a decision", () => {
    it("while pending, with the time from which it is unknown, and change there when it is reported.", async () => {
      const id = await pay(500.5);
      const page = await open(id);
      expect(await textOf(page)).to.match(
        /^Outcome pending Nobody has reported yet how the action ended; from \w{3}, \d+ \w+ \d{4}, [\d:]+ \S+ on its outcome is unknown\. It reserved €500\.50, which stays reserved until then\./,
      );
      await report(id, { status: "succeeded", amount: 480 });
      await card(page).getByText("succeeded", { exact: true }).waitFor();
      expect(await textOf(page)).to.match(
        /that the action was done and came to €480\.00\. It had reserved €500\.50\. It is entry \d+ of the log\.$/,
      );
      await card(page)
        .getByRole("link", { name: /^entry \d+$/ })
        .click();
      await page.getByRole("dialog").getByText('"type"').waitFor();
    });

    it("with the cause of a failure as plain text, and who claimed the action.", async () => {
      const id = await pay(20, { claim_id: randomUUID() });
      await report(id, { status: "failed", error: '<img src=x onerror="window.hacked=1">\u202eno answer' });
      const page = await open(id);
      const text = await textOf(page);
      expect(text).to.match(/^Outcome (now|\d+ \w+ ago) failed/);
      expect(text).to.contain('that the action was tried and failed: <img src=x onerror="window.hacked=1">');
      expect(text).to.contain("U+202E").and.to.contain("Claimed by first admin");
      expect(await page.evaluate(() => "hacked" in window)).to.equal(false);
    });

    it("cancelled, unknown, and settled after it was unknown.", async () => {
      const cancelled = await pay(20);
      await report(cancelled, { status: "cancelled" });
      expect(await textOf(await open(cancelled))).to.contain("that the action was not tried");
      const unknown = await forgotten(30);
      const page = await open(unknown);
      expect(await textOf(page)).to.match(
        /unknown Nobody reported in time how the action ended: its outcome is unknown since .*The action may have been done\. An operator settles it\. It reserved €30\.00/,
      );
      await report(unknown, { status: "succeeded" });
      await card(page).getByText("Its outcome had been unknown since").waitFor();
    });

    it("for nobody where an action is not followed, or was not allowed.", async () => {
      const untracked = await pay(0, { action_type: "mail.send", tool: undefined });
      const page = await open(untracked);
      expect(await card(page).count()).to.equal(0);
      const refused = await open(await pay(200_000));
      expect(await card(refused).count()).to.equal(0);
    });
  });

  describe("filter the decisions", () => {
    it("by the address and by a choice, and say that the list is not live.", async () => {
      const [done, failed] = [await pay(41), await pay(42)];
      await report(done, { status: "succeeded" });
      await report(failed, { status: "failed" });
      const page = await dashboard.open("/decisions?outcome=failed");
      const row = (id: string) => page.locator(`[data-id=${id}]`);
      await row(failed).waitFor();
      expect(await row(done).count()).to.equal(0);
      expect(await row(failed).locator(".feed-outcome").innerText()).to.equal("failed");
      await page.locator("[data-link=off]").getByText("not live").waitFor();
      await page.getByRole("heading", { name: /whatever their outcome/ }).waitFor();
      await page.selectOption("select[name=outcome]", "succeeded");
      await page.waitForURL(/outcome=succeeded/);
      await row(done).waitFor();
      expect(await row(failed).count()).to.equal(0);
      await page.goBack();
      await row(failed).waitFor();
      await page.selectOption("select[name=outcome]", "");
      await page.waitForURL(/\/decisions$/);
      await page.locator("[data-link=live]").waitFor();
    });

    it("but for a word that is none, which filters nothing.", async () => {
      const page = await dashboard.open("/decisions?outcome=%3Cb%3E");
      await page.locator("[data-link=live]").waitFor();
      await page.locator("li[data-id]").first().waitFor();
    });
  });

  describe("wait in a queue while unknown", () => {
    const row = (page: Page, id: string) => page.locator(`.unknown-outcomes li[data-id=${id}]`);
    const dialog = (page: Page) => page.getByRole("dialog");
    const openQueue = async (options: object = {}): Promise<Page> => {
      const page = await dashboard.open("/outcomes", options);
      await page.locator("[data-link=live]").waitFor();
      return page;
    };
    const keyOf = async (role: string): Promise<string> => {
      const { secret } = await dashboard.service.rest("POST /v1/admin/keys", { name: `${role} on duty`, role });
      return secret as unknown as string;
    };
    const standing = async (id: string) => {
      const { decision } = (await dashboard.service.rest(`GET /v1/enforce/decisions/${id}`)) as unknown as {
        readonly decision: { readonly outcome: Readonly<Record<string, unknown>> };
      };
      return decision.outcome;
    };

    it("which what needs you counts and leads to.", async () => {
      const id = await forgotten(71);
      const page = await dashboard.open("/overview");
      const need = page.locator("[data-need=unknown]");
      await need.waitFor();
      expect(await need.innerText()).to.match(
        /^unknown\s+1 allowed action may have been done\s+Nobody reported in time how it ended; payment\.send of payer, (now|\d+ s ago)\./,
      );
      await page.locator(".side [data-count=outcomes]").getByText("1", { exact: true }).waitFor();
      await need.getByRole("link", { name: /^Settle/ }).click();
      const own = row(page, id);
      await own.waitFor();
      await own.getByText("€71.00").waitFor();
      expect((await own.innerText()).replaceAll(/\s+/g, " ")).to.match(
        /payer payment\.send with send_payment €71\.00 .*ago .*(now|ago) Settle payment\.send$/,
      );
      await report(id, { status: "cancelled" });
    });

    it("from which an operator settles one as done, with its amount.", async () => {
      const id = await forgotten(72);
      const page = await openQueue({ key: await keyOf("operator") });
      await row(page, id).locator("[data-action=settle]").click();
      await dialog(page).getByText("was allowed payment.send with send_payment for €72.00, ").waitFor();
      await dialog(page).locator("[data-action=confirm]").click();
      await dialog(page).getByText("choose how the action ended").waitFor();
      await page.selectOption("select[name=status]", "succeeded");
      await dialog(page).getByText("Left empty, it is what was reserved: €72.00.").waitFor();
      for (const [typed, fault] of [
        ["70,5", "must be a number"],
        ["-1", /must be|greater|>= 0|0/],
        ["1.1234567", "six decimal places"],
      ] as const) {
        await page.fill("input[name=amount]", typed);
        await dialog(page).locator("[data-action=confirm]").click();
        await dialog(page).getByRole("alert").filter({ hasText: fault }).waitFor();
      }
      await page.fill("input[name=amount]", "70.5");
      await dialog(page).locator("[data-action=confirm]").click();
      await dialog(page).waitFor({ state: "detached" });
      await page.getByText("Settled as succeeded.").waitFor();
      expect((await row(page, id).innerText()).replaceAll(/\s+/g, " ")).to.match(
        /succeeded €70\.50, by operator on duty (now|\d+ s ago)/,
      );
      expect(await row(page, id).locator("[data-action=settle]").count()).to.equal(0);
      expect(await standing(id)).to.include({
        status: "succeeded",
        amount: 70.5,
        reported_by_name: "operator on duty",
      });
      await page.reload();
      await page.getByText("No outcome is unknown").waitFor();
    });

    for (const [status, cause] of [
      ["failed", "the bank refused it"],
      ["cancelled", ""],
    ] as const) {
      it(`from which one is settled as ${status}.`, async () => {
        const id = await forgotten(73);
        const page = await openQueue();
        await row(page, id).locator("[data-action=settle]").click();
        await page.selectOption("select[name=status]", status);
        expect(await page.locator("input[name=amount]").count()).to.equal(0);
        await page.fill("input[name=error]", cause);
        await dialog(page).locator("[data-action=confirm]").click();
        await row(page, id).getByText(status, { exact: true }).waitFor();
        expect(await standing(id)).to.include({ status, error: cause === "" ? null : cause });
      });
    }

    it("and comes and goes by itself, also from under an open dialog.", async () => {
      const page = await openQueue();
      const id = await forgotten(74);
      await row(page, id).locator("[data-action=settle]").click();
      await page.selectOption("select[name=status]", "failed");
      await report(id, { status: "succeeded", amount: 74 });
      await dialog(page).getByText("Somebody was first").waitFor();
      expect((await dialog(page).innerText()).replaceAll(/\s+/g, " ")).to.match(
        /nothing of yours was sealed\. What stands: succeeded €74\.00, by first admin (now|\d+ s ago)/,
      );
      await assertAccessible(page);
      await page.locator("[role=dialog] [data-action=close]").click();
      await row(page, id).getByText("succeeded", { exact: true }).waitFor();
    });

    it("and says who was first when two settle it at once, without a watch too.", async () => {
      const id = await forgotten(75);
      const page = await openQueue();
      await page.route("**/*EnforcementService/WatchDecisions", (route) => route.abort());
      const second = await dashboard.open("/outcomes", { key: await keyOf("operator") });
      await row(second, id).locator("[data-action=settle]").click();
      await second.route("**/*EnforcementService/ReportOutcome", async (route) => {
        await report(id, { status: "cancelled", error: "never sent" });
        await route.continue();
      });
      await second.selectOption("select[name=status]", "succeeded");
      await dialog(second).locator("[data-action=confirm]").click();
      await dialog(second).getByText("Somebody was first").waitFor();
      await dialog(second).getByText("by first admin").waitFor();
      expect(await standing(id)).to.include({ status: "cancelled", error: "never sent" });
    });

    it("and shows a fault of the service in the dialog, which stays open.", async () => {
      const id = await forgotten(76);
      const page = await openQueue();
      await row(page, id).locator("[data-action=settle]").click();
      await page.route("**/*EnforcementService/ReportOutcome", (route) =>
        route.fulfill({
          status: 503,
          contentType: "application/json",
          body: '{"code":"unavailable","message":"no store"}',
        }),
      );
      await page.selectOption("select[name=status]", "failed");
      await dialog(page).locator("[data-action=confirm]").click();
      await dialog(page).getByRole("alert").waitFor();
      await page.unroute("**/*EnforcementService/ReportOutcome");
      await dialog(page).locator("[data-action=confirm]").click();
      await row(page, id).getByText("failed", { exact: true }).waitFor();
    });

    it("which an auditor reads without buttons.", async () => {
      const id = await forgotten(77);
      const page = await openQueue({ key: await keyOf("auditor") });
      await row(page, id).getByText("€77.00").waitFor();
      expect(await page.locator("[data-action=settle]").count()).to.equal(0);
      const detail = await dashboard.open(`/decisions/${id}`, { key: await keyOf("auditor") });
      await card(detail).getByText("unknown", { exact: true }).waitFor();
      expect(await detail.locator("[data-action=settle]").count()).to.equal(0);
      await report(id, { status: "cancelled" });
    });

    it("which is settled on the page of the decision, too.", async () => {
      const id = await forgotten(78);
      const page = await open(id);
      await card(page).locator("[data-action=settle]").click();
      await page.selectOption("select[name=status]", "cancelled");
      await dialog(page).locator("[data-action=confirm]").click();
      await card(page).getByText("cancelled", { exact: true }).waitFor();
      await card(page).getByText("first admin reported at").waitFor();
    });

    for (const { name, ...appearance } of APPEARANCES) {
      it(`accessibly (${name}).`, async () => {
        const id = await forgotten(79);
        const page = await openQueue(appearance);
        await row(page, id).getByText("€79.00").waitFor();
        await assertColumns(page, "Unknown outcomes", [
          "Agent",
          "Action",
          "Amount",
          "Decided",
          "Unknown since",
          "Actions",
        ]);
        await assertAccessible(page);
        await screenshot(page, `outcomes-${name}`);
        await row(page, id).locator("[data-action=settle]").click();
        await page.selectOption("select[name=status]", "succeeded");
        await dialog(page).getByText("Left empty, it is what was reserved").waitFor();
        await assertAccessible(page);
        await assertFits(page);
        await screenshot(page, `outcomes-settle-${name}`);
      });
    }
  });

  for (const { name, ...appearance } of [...APPEARANCES, { name: "narrow", width: 1_024 } as const]) {
    it(`are accessible on a decision and among the decisions (${name}).`, async () => {
      const id = await pay(12);
      await report(id, { status: "succeeded", amount: 11 });
      const page = await open(id, appearance);
      await card(page).waitFor();
      await assertAccessible(page);
      await assertFits(page);
      await screenshot(page, `outcome-${name}`);
      const list = await dashboard.open("/decisions?outcome=succeeded", appearance);
      await list.locator(`[data-id=${id}]`).waitFor();
      await assertAccessible(list);
      await assertFits(list);
      await screenshot(list, `decisions-by-outcome-${name}`);
    });
  }
});
