import { expect } from "chai";
import type { Page } from "playwright-core";
import { EnforcementService } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService, EscalationStatus } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { type SlackServer, startSlackServer } from "../notification/slack-server.ts";
import { type SmtpServer, startSmtpServer } from "../notification/smtp-server.ts";
import { actionRule, until } from "../support/harness.ts";
import {
  assertAccessible,
  assertFits,
  type Dashboard,
  describeInBrowser,
  openDashboard,
  screenshot,
} from "./browser.ts";

/** Calls of the service worker that a test sees. */
interface WorkerScope extends EventTarget {
  readonly registration: { showNotification: (title: string, options: NotificationOptions) => Promise<void> };
  readonly clients: { openWindow: (path: string) => Promise<void> };
  noted?: NotificationOptions & { readonly title: string };
  opened?: string;
}

/** An icon as the manifest names it. */
interface ManifestIcon {
  readonly src: string;
  readonly sizes: string;
  readonly type: string;
  readonly purpose: string;
}

const MAX_ICON_BYTES = 16_384;

/**
 * Measures an icon in the page: its size, the opacity of its corner, and how far the drawing in white reaches from the centre, as a part of
 * the width.
 */
async function lookAtIcon(src: string) {
  const blob = await (await fetch(src)).blob();
  const image = await createImageBitmap(blob);
  const size = image.width;
  const context = new OffscreenCanvas(size, size).getContext("2d") as OffscreenCanvasRenderingContext2D;
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, size, size);
  let farthest = 0;
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      const [red = 0, , , opacity = 0] = data.subarray(4 * (y * size + x));
      if (red < 200 || opacity < 200) continue;
      farthest = Math.max(farthest, Math.hypot(x - size / 2, y - size / 2) / size);
    }
  }
  return { size, bytes: blob.size, corner: data[3] ?? 0, farthest };
}

describeInBrowser("the notifications of the dashboard", () => {
  let dashboard: Dashboard;
  let smtp: SmtpServer;
  let slack: SlackServer;
  let agentId: string;

  before(async () => {
    [smtp, slack] = await Promise.all([startSmtpServer(), startSlackServer()]);
    dashboard = await openDashboard({
      env: {
        ACP_PUBLIC_URL: "http://acp.example.com",
        ACP_WEBHOOK_ALLOW: "127.0.0.0/8",
        ACP_SLACK_URL: slack.url,
      },
      rules: [actionRule(Decision.ESCALATE, "pay")],
    });
    agentId = await dashboard.service.agent("payer");
  });
  after(async () => {
    await dashboard.close();
    await Promise.all([smtp.close(), slack.close()]);
  });

  const escalate = async (): Promise<string> =>
    (await dashboard.service.admin.client(EnforcementService).intercept({ agentId, actionType: "pay" })).escalationId ??
    "";
  const open = async (options = {}): Promise<Page> => {
    const page = await dashboard.open("/notifications", options);
    await page.locator("[data-action=add-email]").waitFor();
    await page.locator("dt", { hasText: "Mail server" }).waitFor();
    return page;
  };

  it("set a mail server, with faults at their fields, and tell by it.", async () => {
    const page = await open();
    await page.click("[data-action=edit-smtp]");
    await page.fill("[name='smtp.host']", "10.0.0.1");
    await page.fill("[name='smtp.port']", String(smtp.port));
    await page.selectOption("[name='smtp.security']", { label: "none, and no password" });
    await page.fill("[name='smtp.from']", "acp@example.com");
    await page.click("[data-action=confirm]");
    const fault = page.locator(".field", { has: page.locator("[name='smtp.host']") }).locator(".fault-text");
    await fault.waitFor();
    expect(await fault.innerText()).to.match(/not allowed/);
    await page.fill("[name='smtp.host']", "127.0.0.1");
    await page.click("[data-action=confirm]");
    await page.getByText(`127.0.0.1:${smtp.port}, from acp@example.com`).waitFor();
    await page.click("[data-action=add-email]");
    await page.fill("[name=email]", "ann@example.com");
    await page.click("[data-action=confirm]");
    const channel = page.locator("[data-id^=nch_]", { hasText: "ann@example.com" });
    await channel.locator("[data-action=test]").click();
    await page.getByText("Test sent").waitFor();
    expect(smtp.mails.all.map(({ to }) => to)).to.deep.equal([["ann@example.com"]]);
    const id = await escalate();
    await smtp.mails.find(({ text }) => text.includes(id));
  });

  it("set a Slack app and link an account by the code that they show.", async () => {
    const page = await open();
    await page.click("[data-action=edit-slack]");
    await page.fill("[name=slack_bot_token]", slack.token);
    await page.fill("[name=slack_signing_secret]", slack.secret);
    await page.click("[data-action=confirm]");
    await page.getByText("tells people", { exact: true }).waitFor();
    expect(await page.content()).not.to.contain(slack.token);
    await page.click("[data-action=link-slack]");
    await page.click("[data-action=confirm]");
    const command = (await page.locator("[data-command]").textContent()) ?? "";
    const request = slack.sign(slack.command("UANN", command.replace("/acp-link ", "")));
    const answer = await fetch(`${dashboard.service.http}/slack/default`, { method: "POST", ...request });
    expect(await answer.text()).to.include("is linked");
    await page.click("[data-action=done]");
    await page.locator("[data-id^=nch_]", { hasText: "Slack UANN" }).waitFor();
  });

  it("keep quiet hours, and refuse a zone that there is not.", async () => {
    const page = await open();
    await page.fill("[name='preferences.quiet_hours.from']", "22:00");
    await page.fill("[name='preferences.quiet_hours.to']", "06:30");
    await page.fill("[name='preferences.quiet_hours.time_zone']", "Mars/Olympus");
    await page.click("[data-action=save-preferences]");
    await page.locator(".fault-text", { hasText: "must be an IANA time zone" }).waitFor();
    await page.fill("[name='preferences.quiet_hours.time_zone']", "Europe/Berlin");
    await page.click("[data-action=save-preferences]");
    await page.getByText("Saved").waitFor();
    await page.reload();
    await page.waitForFunction(() => {
      const to = document.querySelector<HTMLInputElement>("[name='preferences.quiet_hours.to']");
      return to?.value === "06:30";
    });
    await page.fill("[name='preferences.quiet_hours.from']", "");
    await page.fill("[name='preferences.quiet_hours.to']", "");
    await page.click("[data-action=save-preferences]");
    await page.getByText("Saved").waitFor();
  });

  it("bring a phone from the message to the answer in two taps.", async () => {
    const page = await open({ width: 390 });
    const context = page.context();
    const devtools = await context.newCDPSession(page);
    const registered = new Promise<string>((resolve) => {
      devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
        const [first] = registrations;
        if (first !== undefined) resolve(first.registrationId);
      });
    });
    await devtools.send("ServiceWorker.enable");
    const ready = context.waitForEvent("serviceworker");
    await page.evaluate(() => navigator.serviceWorker.register("/service-worker.js", { scope: "/" }));
    const worker = await ready;
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
    // The browser of tests shows no notifications, and opens windows for taps of people alone: it notes what the worker asks for.
    await worker.evaluate(() => {
      const scope = globalThis as unknown as WorkerScope;
      scope.registration.showNotification = async (title, options) => {
        scope.noted = { title, ...options };
        throw new TypeError("this browser shows no notifications");
      };
      scope.clients.openWindow = async (path) => {
        scope.opened = path;
      };
    });
    const noted = () => worker.evaluate(() => (globalThis as unknown as WorkerScope).noted);
    const id = await escalate();
    const message = {
      title: "An action waits",
      body: "payer wants pay",
      tag: id,
      path: `/escalations/${id}`,
      pending: 1,
    };
    await devtools.send("ServiceWorker.deliverPushMessage", {
      origin: dashboard.service.http,
      registrationId: await registered,
      data: JSON.stringify(message),
    });
    await until(async () => (await noted()) !== undefined);
    expect(await noted()).to.include({ title: "An action waits", body: "payer wants pay", tag: id });
    // The first tap.
    const path = await worker.evaluate(async () => {
      const scope = globalThis as unknown as WorkerScope;
      const works: Promise<unknown>[] = [];
      const press = Object.assign(new Event("notificationclick"), {
        notification: { data: scope.noted?.data, close: () => undefined },
        waitUntil: (work: Promise<unknown>) => works.push(work),
      });
      scope.dispatchEvent(press);
      await Promise.all(works);
      return scope.opened ?? "";
    });
    expect(path).to.equal(`/escalations/${id}`);
    const opened = await dashboard.open(path, { context });
    // The second tap.
    const approve = opened.locator("[data-action=approve]:visible").first();
    await approve.waitFor();
    expect(await approve.boundingBox())
      .to.have.property("height")
      .that.is.at.least(44);
    await approve.click();
    const client = dashboard.service.admin.client(EscalationService);
    const status = async () => (await client.getEscalation({ escalationId: id })).escalation?.status;
    await until(async () => (await status()) !== EscalationStatus.PENDING);
    expect(await status()).to.equal(EscalationStatus.APPROVED);
  });

  it("make the page one that can be installed.", async () => {
    const read = async (path: string) => {
      const response = await fetch(dashboard.service.http + path);
      return [response.status, response.headers.get("content-type"), response.headers.get("cache-control")];
    };
    expect(await read("/manifest.webmanifest")).to.deep.equal([200, "application/manifest+json", "no-cache"]);
    expect(await read("/service-worker.js")).to.deep.equal([200, "text/javascript; charset=utf-8", "no-cache"]);
    const page = await open();
    const devtools = await page.context().newCDPSession(page);
    const { errors, data } = await devtools.send("Page.getAppManifest");
    expect(errors).to.deep.equal([]);
    const manifest = JSON.parse(data ?? "{}") as { readonly icons: readonly ManifestIcon[] };
    expect(manifest).to.include({ display: "standalone", start_url: "/escalations" });
    const rasters = manifest.icons.filter(({ type }) => type === "image/png");
    const kinds = rasters.map(({ sizes, purpose }) => `${purpose} ${sizes}`);
    expect(kinds).to.deep.equal(["any 192x192", "any 512x512", "maskable 192x192", "maskable 512x512"]);
    const touch = await page.locator("link[rel=apple-touch-icon]").getAttribute("href");
    for (const { src, sizes, purpose } of [...rasters, { src: touch ?? "", sizes: "180x180", purpose: "apple" }]) {
      expect(await read(src)).to.deep.equal([200, "image/png", "no-cache"]);
      const { size, bytes, corner, farthest } = await page.evaluate(lookAtIcon, src);
      expect([`${size}x${size}`, bytes < MAX_ICON_BYTES], src).to.deep.equal([sizes, true]);
      // A system that cuts an icon to its own shape wants every corner filled, and nothing drawn outside of a circle of 80 percent.
      expect(corner, src).to.equal(purpose === "any" ? 0 : 255);
      expect(farthest, src).to.be.within(0.1, 0.4);
    }
  });

  it("are read by people who set nothing, and can be used at any width.", async () => {
    const { secret } = (await dashboard.service.rest("POST /v1/admin/keys", {
      name: "reader",
      role: "auditor",
    })) as unknown as { secret: string };
    const auditor = await dashboard.open("/notifications", { key: secret });
    await auditor.getByText("Nothing to be told of").waitFor();
    await auditor.locator("dt", { hasText: "Mail server" }).waitFor();
    expect(await auditor.locator("[data-action=edit-smtp]").count()).to.equal(0);
    for (const colorScheme of ["light", "dark"] as const) {
      for (const width of [1440, 390]) {
        const page = await open({ colorScheme, width });
        await screenshot(page, `notifications-${width}-${colorScheme}`);
        await assertAccessible(page);
        await assertFits(page);
      }
    }
  });
});
