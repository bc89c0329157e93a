import type { Page } from "playwright-core";
import type { FurnishedWeek } from "./furnished-week.ts";

/** Milliseconds before now from which a report begins. */
const RECENT_MS = 300_000;
/** Pixels of the widest page on which an escalation has a page of its own. */
const WIDEST_NARROW = 1_040;

/** A page, or a dialog above one, that people see. */
export interface View {
  readonly name: string;
  /** Address of the page. */
  readonly path: (week: FurnishedWeek) => string;
  /** Selector of what is there once the page was read. */
  readonly ready: string;
  /** Brings about the view on the page. */
  readonly open?: (page: Page, week: FurnishedWeek) => Promise<void>;
  /** Key with which the page is signed in: of the week's administrator, of an empty workspace, or none. Default: of the week's. */
  readonly as?: "week" | "empty" | "nobody";
}

const screen = (name: string, ready: string, path = `/${name}`, open?: View["open"]): View => ({
  name,
  path: () => path,
  ready,
  ...(open !== undefined && { open }),
});

/** Presses a button and waits for what it opens. */
const press =
  (action: string, shown = "[role=dialog]") =>
  async (page: Page): Promise<void> => {
    await page.locator(`[data-action=${action}] >> visible=true`).first().click();
    await page.locator(shown).first().waitFor();
  };

/** Replaces the text of the editor. */
async function write(page: Page, text: string): Promise<void> {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
  await page.locator("[data-action=publish]:enabled").waitFor();
}

const CHANGED = `name: Known recipients
description: Payments that people asked about in the last quarter.
rules:
  - tool: payments.transfer
    decision: escalate
    conditions:
      rules:
        - field: recipient
          operator: in_list
          value: blocked-recipients
  - tool: payments.transfer
    decision: block
    conditions:
      rules:
        - field: amount
          operator: ">"
          value: 1500
`;

const escalation = (name: string, open?: View["open"]): View => ({
  name,
  path: ({ ids }) => `/escalations/${ids.pending}`,
  ready: "[data-action=approve]",
  ...(open !== undefined && { open }),
});
const mandate = (name: string, query: string, ready: string, open?: View["open"]): View => ({
  name,
  path: ({ ids }) => `/mandates/${ids.mandate}${query}`,
  ready,
  ...(open !== undefined && { open }),
});
const decision = (outcome: "allowed" | "blocked" | "escalated", open?: View["open"]): View => ({
  name: open === undefined ? `decision-${outcome}` : `decision-${outcome}-proof`,
  path: ({ ids }) => `/decisions/${ids[outcome]}`,
  ready: "[data-verdict=holds]",
  ...(open !== undefined && { open }),
});
const agent = (name: string, id: "equipped" | "revoked", ready: string, open?: View["open"]): View => ({
  name,
  path: ({ ids }) => `/agents/${ids[id]}${name.endsWith("authority") ? "?tab=authority" : ""}`,
  ready,
  ...(open !== undefined && { open }),
});
const empty = (name: string, ready: string): View => ({
  name: `empty-${name}`,
  path: () => `/${name}`,
  ready,
  as: "empty",
});

const TITLE = "[data-screen] .empty";
const ROW = "main .virtual li";

/** Selects all that wait and begins to approve them. */
async function openGroupAnswer(page: Page): Promise<void> {
  await page.locator("[data-action=select-all]").first().check();
  await press("batch")(page);
}

/** Opens the edit of a pending payment with another amount. */
async function openEdit(page: Page): Promise<void> {
  await press("edit", '[role=dialog] [name="argument.amount"]')(page);
  await page.fill('[name="argument.amount"]', "1500");
}

/** Every screen, each page of one thing, and the dialogs in which something is decided. */
export const VIEWS: readonly View[] = [
  { name: "sign-in", path: () => "/", ready: "input[name=key]", as: "nobody" },
  screen("overview", "[data-need] >> nth=3", "/overview", async (page) => {
    await page.waitForSelector("[data-screen=overview] .chart canvas");
    await page.getByRole("region", { name: "Most frequent reasons" }).waitFor();
  }),
  screen("overview-week", "[data-screen=overview] .chart canvas", "/overview?window=7d"),
  {
    name: "escalations",
    path: () => "/escalations",
    ready: ".queue-row [data-action=select]",
    async open(page) {
      if ((page.viewportSize()?.width ?? 0) > WIDEST_NARROW) await page.waitForSelector("[data-action=approve]");
    },
  },
  screen("escalations-by-mandate", ".queue-row.is-head", "/escalations?group=mandate"),
  screen("escalations-answered", ".resolved", "/escalations?show=answered"),
  screen("escalations-group-answer", ".queue-row [data-action=select]", "/escalations", openGroupAnswer),
  escalation("escalation"),
  { name: "escalation-rejected", path: ({ ids }) => `/escalations/${ids.rejected}`, ready: "article footer .outcome" },
  {
    name: "escalation-approvals",
    path: ({ ids }) => `/escalations/${ids.approvals}`,
    ready: "[data-obstacle] >> nth=0",
  },
  escalation("escalation-reject", press("reject")),
  escalation("escalation-edit", openEdit),
  escalation("escalation-edit-review", async (page) => {
    await openEdit(page);
    await press("review", "[role=dialog] [data-action=confirm]")(page);
  }),
  screen("decisions", ROW),
  screen("decisions-filtered", ROW, "/decisions?decision=block&action_type=payments.*"),
  decision("allowed"),
  decision("blocked"),
  decision("escalated"),
  decision("escalated", press("show-proof", "[data-step=signature] >> visible=true")),
  screen("decisions-by-outcome", ROW, "/decisions?outcome=unknown"),
  { name: "decision-reported", path: ({ ids }) => `/decisions/${ids.reported}`, ready: "[data-verdict=holds]" },
  screen("outcomes", ".unknown-outcome"),
  screen("outcomes-settle", ".unknown-outcome", "/outcomes", async (page) => {
    await press("settle")(page);
    await page.selectOption("select[name=status]", "succeeded");
    await page.getByText("Left empty, it is what was reserved").waitFor();
  }),
  screen("limits", ".limit"),
  screen("agents", ROW),
  screen("agents-register", ROW, "/agents", press("register")),
  { name: "departments", path: ({ ids }) => `/agents?tab=departments&open=${ids.department}`, ready: ".member-row" },
  agent("agent", "equipped", ".event-row"),
  agent("agent-authority", "equipped", ".authority-row"),
  {
    name: "session",
    path: ({ ids }) => `/sessions/${ids.session}`,
    ready: "[data-step='2']",
    open: (page) => page.locator(".feed-row").first().waitFor(),
  },
  agent("agent-certificate", "revoked", "[data-verified=true]"),
  {
    name: "incident",
    path: ({ ids }) => `/incident?agent=${ids.equipped}&agent=${ids.revoked}`,
    ready: ".incident-actions",
  },
  agent("agent-revoke", "equipped", "[data-action=revoke]", press("revoke", "[data-preview]")),
  screen("tools", ROW),
  { name: "tool", path: () => "/tools/payments.transfer", ready: ".tool-arguments" },
  screen("tools-paste", ROW, "/tools", press("paste")),
  screen("servers", ROW),
  { name: "server", path: () => "/servers/bank", ready: ROW },
  screen("server-definition", ROW, "/servers/bank", async (page) => {
    await page.click("li[data-id=transfer] [data-action=look]");
    await page.waitForSelector("[role=dialog] [data-change]");
  }),
  screen("server-settings", ROW, "/servers/bank", press("edit")),
  screen("mandates", ROW),
  mandate("mandate", "", ".cm-content"),
  mandate("mandate-tests", "?show=tests", "[data-results]"),
  mandate("mandate-history", "?show=history", ".diff"),
  { name: "mandate-observing", path: ({ ids }) => `/mandates/${ids.observing}`, ready: ".cm-content" },
  screen("mandate-new", ".cm-content", "/mandates/new"),
  mandate("mandate-publish", "", ".cm-content", async (page) => {
    await write(page, CHANGED);
    await press("publish", "[role=dialog] .diff")(page);
  }),
  mandate("mandate-backtest", "", ".cm-content", async (page) => {
    await write(page, CHANGED);
    await press("backtest", "[role=dialog] [data-action=start]")(page);
    await press("start", "[data-report]")(page);
  }),
  { name: "backtest", path: ({ ids }) => `/backtests/${ids.backtest}`, ready: "[data-report] .backtest-change" },
  mandate("mandate-rule", "", ".cm-content", press("add-rule")),
  mandate("mandate-budget", "", ".cm-content", async (page) => {
    await press("add-rule")(page);
    await page.selectOption("[name=kind]", "budget");
    await page.locator("[name=max_total]").waitFor();
  }),
  screen("lists", ROW),
  { name: "list", path: () => "/lists/partner-hosts", ready: ROW },
  screen("lists-create", ROW, "/lists", press("create-list")),
  screen("proposals", ROW),
  screen("proposals-ended", "[data-screen=proposals] .empty", "/proposals?show=ended"),
  { name: "proposal", path: ({ ids }) => `/proposals/${ids.proposal}`, ready: "[data-screen=proposal] .diff" },
  {
    name: "proposal-reject",
    path: ({ ids }) => `/proposals/${ids.proposal}`,
    ready: "[data-action=reject]",
    open: press("reject"),
  },
  screen("vault", "[data-panel=checkpoint] [data-verdict=holds]"),
  screen("evidence", ROW),
  screen("evidence-entry", ROW, "/evidence", async (page) => {
    await page.locator(`${ROW} a`).first().click();
    await page.waitForSelector("[role=dialog] [data-verdict=holds]");
  }),
  screen("evidence-report", ROW, "/evidence", async (page) => {
    // The last of the week: each row is proven by calls of its own.
    const since = await page.evaluate((ms) => {
      const at = new Date(ms);
      return new Date(ms - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    }, Date.now() - RECENT_MS);
    await page.fill("[name=since]", since);
    await press("make-report", "[data-report]")(page);
  }),
  screen("settings", "[data-screen=settings] [data-id]"),
  screen("webhooks", ROW),
  screen("notifications", "#workspace-settings"),
  screen("notifications-email", "#workspace-settings", "/notifications", press("add-email")),
  screen("notifications-smtp", "#workspace-settings", "/notifications", press("edit-smtp")),
  screen("notifications-slack", "#workspace-settings", "/notifications", press("edit-slack")),
  {
    name: "webhook",
    path: ({ ids }) => `/webhooks/${ids.webhook}`,
    ready: "[data-screen=webhooks] main, [data-screen]",
  },
  screen("webhooks-create", ROW, "/webhooks", press("create")),
  screen("keys", ROW),
  screen("keys-create", ROW, "/keys", press("create-key")),
  screen("people", ROW),
  { name: "person", path: ({ ids }) => `/people/${ids.person}`, ready: "[data-screen=person] h1" },
  screen("people-add", ROW, "/people", press("add-person")),
  { name: "invite", path: () => "/invite#acpi_shown", ready: "[data-action=open-invite]", as: "nobody" },
  screen("approver-groups", ROW),
  { name: "approver-group", path: () => "/approver-groups/finance", ready: "[data-part=deputies]" },
  screen("approver-group-edit", "[data-part=deputies]", "/approver-groups/finance", press("edit-group")),
  screen("workspaces", "[data-action=save]"),
  screen("find", "[data-action=find]", "/overview", async (page) => {
    await press("find")(page);
    await page.keyboard.type("in");
    await page.locator("[role=option]").nth(2).waitFor();
  }),
  screen("keys-of-the-page", "[data-action=find]", "/settings", async (page) => {
    await page.keyboard.press("?");
    await page.waitForSelector("[role=dialog] .keys-list");
  }),
  screen("halt", "[data-action=halt]", "/settings", press("halt")),
  screen("account", "[data-action=account]", "/settings", press("account", ".menu")),
  screen("nothing", ".empty", "/agents/of/nobody"),
  empty("overview", ".looked-at li"),
  empty("escalations", TITLE),
  empty("decisions", TITLE),
  empty("outcomes", TITLE),
  empty("limits", TITLE),
  empty("agents", TITLE),
  empty("tools", TITLE),
  empty("servers", TITLE),
  empty("mandates", TITLE),
  empty("lists", TITLE),
  empty("proposals", TITLE),
  empty("backtests", TITLE),
  empty("approver-groups", TITLE),
  empty("webhooks", TITLE),
  empty("vault", "[data-panel=checkpoint]"),
];
