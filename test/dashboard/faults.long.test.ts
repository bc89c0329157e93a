import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Page } from "playwright-core";
import { SummarizeDecisionsResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { type Dashboard, describeInBrowser, openDashboard } from "./browser.ts";

/** The browser's preset "Fast 4G": milliseconds, bytes a second. */
const SLOW = { offline: false, latency: 165, downloadThroughput: 1_012_500, uploadThroughput: 168_750 };
/** Milliseconds between the pointer's down and up of a slow press. */
const SLOW_PRESS_MS = 300;
/** A little longer than presses by pointer are refused after another card took the place of one. */
const MOVED_MS = 500;

describeInBrowser("the dashboard under adverse conditions", () => {
  let dashboard: Dashboard;
  let agentId: string;

  const card = (on: Page, id: string) => on.locator(`[data-id="${id}"]`);

  /** Attempts a payment that escalates; gives the escalation. */
  async function ask(to: string): Promise<string> {
    const { escalation_id: id } = await dashboard.service.rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "payment.send",
      metadata: { arguments: { amount: 750, to } },
    });
    return String(id);
  }

  /** Slows the network of a page down, as a phone's is. */
  async function slowDown(page: Page): Promise<void> {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", SLOW);
  }

  before(async () => {
    dashboard = await openDashboard();
    await dashboard.service.rest("POST /v1/enforce/mandates", {
      name: "payments",
      rules: [{ type: "action", decision: "escalate", conditions: { match_action_types: ["payment.send"] } }],
    });
    agentId = await dashboard.service.agent("payer");
  });
  // A test leaves nothing in the queue to the ones after it.
  afterEach(async () => {
    const { escalations } = await dashboard.service.rest("GET /v1/enforce/escalations?status=pending&page_size=100");
    for (const { escalation_id: id } of escalations as unknown as readonly { escalation_id: string }[]) {
      await dashboard.service.resolve(id, "rejected");
    }
  });
  after(() => dashboard.close());

  it("shows the answer that was just given on a slow connection, and nothing older.", async () => {
    const id = await ask("SLOW");
    const page = await dashboard.open("/overview");
    await slowDown(page);
    await page.addInitScript(() => {
      const outcomes: string[] = [];
      Object.assign(window, { outcomes });
      new MutationObserver(() => {
        const text = document.querySelector(".escalation .outcome p")?.textContent;
        if (text !== undefined && text !== null && outcomes.at(-1) !== text) outcomes.push(text);
      }).observe(document, { subtree: true, childList: true, characterData: true });
    });
    // The card is read before the stream tells of it.
    let isRead: (() => void) | undefined;
    const read = new Promise<void>((resolve) => {
      isRead = resolve;
    });
    await page.route("**/WatchEscalations", async (route) => {
      await read;
      await route.continue();
    });
    await page.goto(`/escalations/${id}`);
    await card(page, id).locator("[data-action=approve]").waitFor();
    isRead?.();
    await page.locator("[data-count=escalations]", { hasText: "1" }).waitFor();
    await card(page, id).locator("[data-action=approve]").click();
    await card(page, id).getByText("Not used yet").waitFor();
    const outcomes = await page.evaluate(() => (window as unknown as { outcomes: string[] }).outcomes);
    expect(outcomes).to.not.be.empty;
    for (const text of outcomes) expect(text).to.match(/^approvedby /);
  });

  it("goes on where the browser has notifications and refuses to construct them.", async () => {
    const page = await dashboard.open("/escalations");
    const thrown: string[] = [];
    page.on("pageerror", ({ message }) => thrown.push(message));
    await page.getByText("live", { exact: true }).waitFor();
    await page.evaluate(() => {
      let attempts = 0;
      class Refusing {
        static readonly permission = "granted";
        constructor() {
          attempts++;
          throw new TypeError("Illegal constructor. Use ServiceWorkerRegistration.showNotification() instead.");
        }
      }
      Object.assign(window, { Notification: Refusing, attempts: () => attempts });
      Object.defineProperty(document, "hidden", { get: () => true });
    });
    for (const to of ["FIRST", "SECOND"]) await card(page, await ask(to)).waitFor();
    await page.waitForFunction(() => (window as unknown as { attempts: () => number }).attempts() === 2);
    await page.getByText("live", { exact: true }).waitFor();
    expect(thrown).to.deep.equal([]);
  });

  it("moves no button under a press, and no line below one that is answered.", async () => {
    const ids = [await ask("ONE"), await ask("TWO"), await ask("THREE")] as const;
    const page = await dashboard.open("/escalations");
    const shown = (id: string) => page.locator(`#card-${id}.is-focused`);
    const places = () =>
      page.locator(".answers button, .virtual-row").evaluateAll((elements) =>
        elements.map((element) => {
          const { x, y, width, height } = element.getBoundingClientRect();
          return [element.dataset.action ?? "row", x, y, width, height].join(" ");
        }),
      );
    await shown(ids[0]).getByText("No limit counts this action.").waitFor();
    const first = await places();
    for (const id of ids.slice(0, 2)) {
      await card(page, id).getByRole("link").click();
      await shown(id).getByText("No limit counts this action.").waitFor();
      // The buttons of each card stand where those of the card before stood.
      expect(await places()).to.deep.equal(first);
      const reject = shown(id).locator("[data-action=reject]");
      const { x, y, width, height } = (await reject.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
      // Its left edge is where another button would come to lie.
      await page.mouse.move(x + 2, y + height / 2);
      await page.mouse.down();
      expect(await places()).to.deep.equal(first);
      await page.waitForTimeout(SLOW_PRESS_MS);
      await page.mouse.up();
      await page.getByRole("dialog", { name: "Reject" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.mouse.move(x + width / 2, y + height / 2);
    }
    const rows = async () => (await places()).filter((place) => place.startsWith("row"));
    await card(page, ids[0]).getByRole("link").click();
    await shown(ids[0]).locator("[data-action=approve]").dispatchEvent("click");
    await page.locator(`.virtual [data-answered="${ids[0]}"]`).getByText("approved", { exact: true }).waitFor();
    expect(await rows()).to.deep.equal(first.filter((place) => place.startsWith("row")));
  });

  it("gives the focus of a closed dialog back to its opener, or to the next place if that is gone.", async () => {
    const ids = [await ask("ONE"), await ask("TWO"), await ask("THREE"), await ask("FOUR")] as const;
    const page = await dashboard.open("/keys");
    const focus = () =>
      page.evaluate(() => {
        const { activeElement } = document;
        if (activeElement?.closest("[role=dialog]")) return "dialog";
        const row = activeElement?.closest<HTMLElement>("[data-id]")?.dataset.id;
        const { id = "", dataset } = (activeElement ?? document.body) as HTMLElement;
        return [row, id === "" ? dataset.action : id].filter((each) => each !== undefined).join(" ");
      });
    const closed = () => page.getByRole("dialog").waitFor({ state: "detached" });
    const arrives = async (place: string) => {
      const deadline = Date.now() + 5_000;
      while ((await focus()) !== place && Date.now() < deadline) await page.waitForTimeout(50);
      expect(await focus()).to.equal(place);
    };
    // Each way to close a dialog.
    for (const close of ["Escape", "[data-action=cancel]", "[data-action=close]"]) {
      await page.click("[data-action=halt]");
      await page.getByRole("dialog").waitFor();
      if (close === "Escape") await page.keyboard.press(close);
      else await page.click(`[role=dialog] ${close}`);
      await closed();
      await arrives("halt");
    }
    // A dialog in the place of another.
    await page.click("[data-action=create-key]");
    await page.fill("[role=dialog] [name=name]", "focused");
    await page.click("[data-action=submit-key]");
    await page.click("[data-action=stored]");
    await closed();
    await arrives("create-key");
    await page.click("[data-nav=escalations]");
    // The focus of a card that is answered by its dialog goes to the line of the next one.
    await card(page, ids[3]).waitFor();
    await page.locator(`#card-${ids[0]} [data-action=reject]`).click();
    await page.click("[role=dialog] [data-action=confirm]");
    await closed();
    await arrives(ids[1]);
    await page.locator(`#card-${ids[1]}`).waitFor();
    await page.waitForTimeout(MOVED_MS);
    await page.locator(`#card-${ids[1]} [data-action=edit]`).click();
    await page.fill('[name="argument.amount"]', "9");
    await page.click("[data-action=review]");
    await page.click("[role=dialog] [data-action=confirm]");
    await closed();
    await arrives(ids[2]);
    await page.locator(`#card-${ids[2]}`).waitFor();
    await page.waitForTimeout(MOVED_MS);
    await page.locator(`#card-${ids[2]} [data-action=approve]`).click();
    await arrives(ids[3]);
    // A key opens the dialog of the button that it stands for.
    await page.locator(`#card-${ids[3]}.is-focused`).waitFor();
    await page.waitForTimeout(SLOW_PRESS_MS);
    await page.keyboard.press("r");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await closed();
    await arrives("reject");
    await page.keyboard.press("r");
    await page.click("[role=dialog] [data-action=confirm]");
    await closed();
    await arrives("screen-title");
  });

  for (const count of [999, 1_000, 123_456]) {
    it(`draws every digit of a chart's axis at ${count.toLocaleString("en")} decisions.`, async () => {
      const page = await dashboard.open("/overview");
      // The service's own answer, with the counts of a busy workspace.
      await page.route("**/SummarizeDecisions", async (route) => {
        const response = await route.fetch();
        const summary = fromBinary(SummarizeDecisionsResponseSchema, await response.body());
        for (const bucket of summary.buckets) bucket.allow = BigInt(count);
        await route.fulfill({
          response,
          body: Buffer.from(toBinary(SummarizeDecisionsResponseSchema, summary)),
        });
      });
      await page.addInitScript(() => {
        const drawn: { text: string; left: number }[] = [];
        Object.assign(window, { drawn });
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function record(text, x, y, ...rest) {
          const { width } = this.measureText(text);
          const before = { right: width, end: width, center: width / 2, left: 0, start: 0 }[this.textAlign];
          drawn.push({ text, left: this.getTransform().transformPoint({ x, y }).x - before });
          fillText.call(this, text, x, y, ...rest);
        };
      });
      await page.reload();
      const digits = /^[\d,]+$/;
      await page.waitForFunction(() =>
        (window as unknown as { drawn: { text: string }[] }).drawn.some(({ text }) => /^[\d,]+$/.test(text)),
      );
      const drawn = await page.evaluate(() => (window as unknown as { drawn: { text: string; left: number }[] }).drawn);
      const labels = drawn.filter(({ text }) => digits.test(text));
      expect(Math.max(...labels.map(({ text }) => Number(text.replaceAll(",", ""))))).to.be.at.least(count / 2);
      for (const { text, left } of labels) expect(left, text).to.be.at.least(0);
    });
  }

  describe("after an upgrade that it was open over", () => {
    /** Takes a built file away from a page, until the page is loaded anew or for good. Returns the number of loads so far. */
    async function takeAway(page: Page, file: RegExp, { isForGood }: { readonly isForGood: boolean }) {
      let loads = 0;
      page.on("request", (request) => {
        if (request.isNavigationRequest()) loads++;
      });
      await page.route(file, (route) =>
        loads > 0 && !isForGood ? route.continue() : route.fulfill({ status: 404, body: "{}" }),
      );
      return () => loads;
    }

    for (const { part, file } of [
      { part: "script", file: /\/assets\/limits-[\w-]+\.js$/ },
      { part: "style", file: /\/assets\/limits-[\w-]+\.css$/ },
    ]) {
      it(`loads itself anew, once and at the same address, when the ${part} of a screen is gone.`, async () => {
        const page = await dashboard.open("/overview");
        const loads = await takeAway(page, file, { isForGood: false });
        await page.click("[data-nav=limits]");
        await page.waitForSelector("[data-screen=limits]");
        expect([new URL(page.url()).pathname, loads()]).to.deep.equal(["/limits", 1]);
      });
    }

    it("says so and does not load itself again when the new page lacks the file too.", async () => {
      const page = await dashboard.open("/overview");
      const loads = await takeAway(page, /\/assets\/limits-/, { isForGood: true });
      await page.click("[data-nav=limits]");
      const reload = page.locator(".fault [data-action=reload]");
      for (const wanted of [1, 2]) {
        while (loads() < wanted) await page.waitForRequest((request) => request.isNavigationRequest());
        await reload.waitFor();
        // Time for a further load, if there were one.
        await page.waitForTimeout(1_000);
        expect(loads()).to.equal(wanted);
        await reload.waitFor();
        if (wanted === 1) await reload.click();
      }
      // The other screens stay usable.
      await page.click("[data-nav=vault]");
      await page.waitForSelector("[data-screen=vault]");
    });

    it("stays as it is while the service cannot be reached.", async () => {
      const page = await dashboard.open("/overview");
      const loads = await takeAway(page, /nothing/, { isForGood: true });
      await page.waitForSelector("[data-screen=overview]");
      await page.context().setOffline(true);
      await page.click("[data-nav=limits]");
      await page.locator(".fault [data-action=reload]").waitFor();
      expect(loads()).to.equal(0);
    });

    it("keeps an unsaved draft, and leaves the load to the person.", async () => {
      const page = await dashboard.open("/mandates/new");
      await page.locator(".cm-content").click();
      await page.keyboard.press("ControlOrMeta+a");
      await page.keyboard.insertText("name: unsaved");
      const loads = await takeAway(page, /\/assets\/rule-form-/, { isForGood: true });
      await page.click("[data-action=add-rule]");
      await page.locator(".fault [data-action=reload]").waitFor();
      expect(await page.locator(".cm-content").innerText()).to.equal("name: unsaved");
      expect(loads()).to.equal(0);
      const asked = page.waitForEvent("dialog");
      const click = page.click("[data-action=reload]", { noWaitAfter: true });
      const dialog = await asked;
      expect(dialog.type()).to.equal("beforeunload");
      await dialog.dismiss();
      await click;
      expect(await page.locator(".cm-content").innerText()).to.equal("name: unsaved");
    });
  });

  /** Lists the texts of times, counts and names on a page that lie over or under a badge. */
  const overlapsOn = (page: Page) =>
    page.evaluate(() => {
      const texts = [...document.querySelectorAll("main time, main .hint, main .countdown, main .clock")].flatMap(
        (element) => {
          const range = document.createRange();
          range.selectNodeContents(element);
          return [...range.getClientRects()].map((rect) => ({ element, rect }));
        },
      );
      const badges = [...document.querySelectorAll("main .badge")].map((element) => ({
        element,
        rect: element.getBoundingClientRect(),
      }));
      return badges.flatMap((badge) =>
        texts
          .filter(({ element }) => !element.contains(badge.element) && !badge.element.contains(element))
          .filter(
            ({ rect }) =>
              Math.min(rect.right, badge.rect.right) - Math.max(rect.left, badge.rect.left) > 1 &&
              Math.min(rect.bottom, badge.rect.bottom) - Math.max(rect.top, badge.rect.top) > 1,
          )
          .map(({ element }) => `"${element.textContent}" and "${badge.element.textContent}"`),
      );
    });

  for (const width of [390, 1_024]) {
    it(`puts no time under a badge on a page of ${width} pixels, today and days later.`, async () => {
      const { rest } = dashboard.service;
      const gone = await dashboard.service.agent("an agent that was deactivated some time ago");
      await rest(`DELETE /v1/enforce/agents/${gone}`);
      for (const to of ["ONE", "TWO"]) await ask(to);
      const page = await dashboard.open("/overview", { width });
      // High enough for the context of a card, which is read once it is in view.
      await page.setViewportSize({ width, height: 3_000 });
      for (const days of [0, 3]) {
        await page.clock.setSystemTime(Date.now() + days * 86_400_000);
        for (const [path, shown] of [
          ["/decisions", ".feed-row time"],
          ["/agents", ".agents-row .badge"],
          ["/escalations", ".virtual .countdown"],
        ] as const) {
          await page.goto(path);
          await page.locator(shown).first().waitFor();
          expect(await overlapsOn(page), `${path} after ${days} days`).to.deep.equal([]);
        }
      }
    });
  }

  describe("on the way back from an item to its list", () => {
    let page: Page;

    before(async () => {
      for (let count = 0; count < 40; count++) {
        await dashboard.service.rest("POST /v1/enforce/intercept", { agent_id: agentId, action_type: `look.${count}` });
        await dashboard.service.agent();
      }
    });

    /** Returns the top of each row in its list, by id, and the id of the row with the focus. */
    const look = () =>
      page.evaluate(() => {
        const list = document.querySelector(".virtual");
        const top = list?.getBoundingClientRect().top ?? 0;
        const rows = [...(list?.querySelectorAll<HTMLElement>("[data-id]") ?? [])];
        return {
          search: location.search,
          tops: Object.fromEntries(
            rows
              .filter((row) => row.parentElement?.classList.contains("virtual-space"))
              .map((row) => [row.dataset.id ?? "", row.getBoundingClientRect().top - top]),
          ),
          focused: document.activeElement?.closest<HTMLElement>(".virtual-row")?.dataset.id,
        };
      });

    for (const { list, path, link, item, rows } of [
      { list: "decisions", path: "/decisions?decision=allow", link: "a", item: "[data-screen=decision]", rows: 0 },
      { list: "escalations", path: "/escalations?agent=", link: "a", item: ".around.is-whole", rows: 30 },
      { list: "agents", path: "/agents?status=active", link: "a", item: "[data-screen=agent]", rows: 0 },
      { list: "entries of the vault", path: "/vault?from=35", link: "a", item: "[role=dialog]", rows: 0 },
    ]) {
      it(`finds the ${list} with their filters, their place and the focus.`, async () => {
        for (let count = 0; count < rows; count++) await ask(`PLACE ${count}`);
        // On a page of this width a line of the escalations opens a page of its own.
        page = await dashboard.open(path.replace(/agent=$/, `agent=${agentId}`), { width: 1_024 });
        await page.locator(`.virtual-row ${link}`).nth(3).waitFor({ state: "attached" });
        const scroller = page.locator(".virtual");
        // Whole cards are measured as they come into view.
        for (let turn = 0; turn < 3; turn++) {
          await scroller.evaluate((element) => element.scrollTo({ top: 450 }));
          await page.waitForTimeout(SLOW_PRESS_MS);
        }
        const { tops, search } = await look();
        const [id = "", topBefore = 0] =
          Object.entries(tops)
            .sort(([, one], [, other]) => one - other)
            .find(([, top]) => top > 100) ?? [];
        expect(search).to.not.equal("");
        await page.locator(`.virtual-row[data-id="${id}"] ${link}`).first().click();
        await page.waitForSelector(item);
        await page.goBack();
        await page.locator(`.virtual-row[data-id="${id}"]`).waitFor();
        const deadline = Date.now() + 5_000;
        const isBack = async () => {
          const now = await look();
          return now.focused === id && Math.abs((now.tops[id] ?? 0) - topBefore) <= 2;
        };
        while (!(await isBack()) && Date.now() < deadline) await page.waitForTimeout(50);
        const now = await look();
        expect([now.search, now.focused]).to.deep.equal([search, id]);
        expect(now.tops[id]).to.be.closeTo(topBefore, 2);
      });
    }

    it("begins another screen at its top.", async () => {
      page = await dashboard.open("/overview");
      await page.setViewportSize({ width: 1280, height: 400 });
      const main = page.locator("main#content");
      await page.getByRole("heading", { name: "Decisions by outcome" }).waitFor();
      await main.evaluate((element) => element.scrollTo({ top: 300 }));
      await page.waitForTimeout(SLOW_PRESS_MS);
      await page.click("[data-nav=evidence]");
      await page.locator("[data-screen=evidence] .virtual").waitFor();
      expect(await main.evaluate(({ scrollTop }) => scrollTop)).to.equal(0);
      await page.goBack();
      await page.getByRole("heading", { name: "Decisions by outcome" }).waitFor();
      await page.waitForFunction(() => document.querySelector("main#content")?.scrollTop === 300);
    });
  });
});
