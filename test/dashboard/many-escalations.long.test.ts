import { expect } from "chai";
import type { Page } from "playwright-core";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";

const ROUNDS = 50;
const PENDING = 5_000;
const AGENTS = 60;
const MAX_ROWS = 200;

/** What the page notes: when each escalation came and went, and how many rows there were at most. */
interface Noted {
  readonly seen: Record<string, number>;
  readonly gone: Record<string, number>;
  rows: number;
}

/** Makes a page note what happens on it, in epoch milliseconds. */
async function observe(page: Page): Promise<void> {
  await page.evaluate(() => {
    const noted: Noted = { seen: {}, gone: {}, rows: 0 };
    Object.assign(window, { noted });
    const note = (): void => {
      const now = performance.timeOrigin + performance.now();
      const rows = document.querySelectorAll(".virtual [data-id]");
      noted.rows = Math.max(noted.rows, rows.length);
      const ids = new Set([...rows].map((row) => row.getAttribute("data-id") ?? ""));
      for (const id of ids) noted.seen[id] ??= now;
      for (const id of Object.keys(noted.seen)) if (!ids.has(id)) noted.gone[id] ??= now;
    };
    new MutationObserver(note).observe(document.body, { childList: true, subtree: true });
    note();
  });
}

const notedOn = (page: Page): Promise<Noted> => page.evaluate(() => (window as unknown as { noted: Noted }).noted);

const p95 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? Number.NaN;

describeInBrowser("many escalations on the dashboard", () => {
  let dashboard: Dashboard;
  const agents: string[] = [];
  const rule = { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["pay.*"] } };

  const ask = async (count: number): Promise<string> => {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agents[count % agents.length],
      action_type: `pay.${count}`,
      metadata: { arguments: { amount: count, to: "ACME" } },
    });
    return String(id);
  };

  before(async () => {
    dashboard = await openDashboard({ rules: [rule] });
    for (let count = 0; count < AGENTS; count++) agents.push(await dashboard.service.agent());
  });
  after(() => dashboard.close());

  it("are on the page, and gone from every page after they are answered.", async () => {
    const [page, other] = [await dashboard.open("/escalations"), await dashboard.open("/escalations")];
    for (const each of [page, other]) {
      await each.getByText("live", { exact: true }).waitFor();
      await observe(each);
    }
    const asked: Record<string, number> = {};
    const answered: Record<string, number> = {};
    for (let count = 0; count < ROUNDS; count++) {
      const startedAt = Date.now();
      const id = await ask(count);
      asked[id] = startedAt;
      await page.locator(`[data-id="${id}"]`).waitFor();
      answered[id] = Date.now();
      await dashboard.service.resolve(id, "approved");
      for (const each of [page, other]) await each.locator(`.virtual [data-id="${id}"]`).waitFor({ state: "detached" });
    }
    const [noted, elsewhere] = [await notedOn(page), await notedOn(other)];
    const came = Object.entries(asked).map(([id, at]) => (noted.seen[id] ?? Number.NaN) - at);
    const went = Object.entries(answered).flatMap(([id, at]) =>
      [noted, elsewhere].map(({ gone }) => (gone[id] ?? Number.NaN) - at),
    );
    console.log(`      p95: on the page ${p95(came).toFixed(0)} ms, gone ${p95(went).toFixed(0)} ms`);
  });

  it(`of ${PENDING} hold at most ${MAX_ROWS} rows, wherever the list is scrolled.`, async () => {
    const { rest } = dashboard.service;
    await rest("PATCH /v1/admin/workspaces/default", { max_pending_escalations_per_agent: 1_000 });
    let next = 1_000;
    const work = async (): Promise<void> => {
      while (next < 1_000 + PENDING) await ask(next++);
    };
    await Promise.all(Array.from({ length: 32 }, work));
    const page = await dashboard.open("/escalations");
    await page.getByText(`Pending (${PENDING})`).waitFor({ timeout: 60_000 });
    await observe(page);
    const scroller = page.locator(".virtual");
    await scroller.hover();
    for (let step = 0; step < 40; step++) await page.mouse.wheel(0, 1_500);
    await scroller.evaluate((element) => {
      element.scrollTop = element.scrollHeight;
    });
    await page.locator("[data-id]").last().waitFor();
    const { rows } = await notedOn(page);
    console.log(`      at most ${rows} rows of ${PENDING} in the document`);
    expect(rows).to.be.within(1, MAX_ROWS);
    await page.click("[data-nav=overview]");
    const waiting = page.getByRole("region", { name: "Waiting for a person" });
    await waiting.locator(".big").getByText(PENDING.toLocaleString("en"), { exact: true }).waitFor();
  }).timeout(240_000);
});
