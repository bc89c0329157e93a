import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { BROWSER_FLAGS, CHROMIUM } from "../dashboard/browser.ts";
import { longestTask } from "../dashboard/longest-task.ts";
import { ROW, scrollToEnd, showsDecisions } from "../dashboard/scroll-to-end.ts";
import { type SeededWeek, seedWeek } from "../dashboard/seed-week.ts";
import { startToolsServer, type ToolsServer, tool } from "../gateway/tools-server.ts";
import { startServer } from "../support/server.ts";
import type { Child } from "./child.ts";
import { type Rest, TASKS, type TaskContext } from "./dashboard-tasks.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import { addWorkspace } from "./service.ts";
import type { PartReport } from "./throughput.ts";

/** Times that each task is done; the median counts. */
const ROUNDS = 5;
/** Longest task of a page, milliseconds of the processor: a press is answered within the tenth of a second that people take for at once. */
const MAX_TASK_MS = 100;
const STEPS = 40;
const STEP_PIXELS = 1_500;
const STEP_MS = 50;
const SETTLE_MS = 500;
const LOADED_MS = 60_000;
const DASHBOARD_BUILD = join(import.meta.dirname, "..", "..", "src/dashboard/build.ts");

/** The dashboard of the seeded service. */
interface Desk {
  readonly http: string;
  readonly browser: Browser;
  readonly week: SeededWeek;
  readonly upstream: ToolsServer;
}

function restTo(http: string, key: string): Rest {
  return async (request, body) => {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) };
    const response = await fetch(http + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
}

const contextOf = ({ browser, http }: Desk): Promise<BrowserContext> =>
  browser.newContext({ baseURL: http, timezoneId: "UTC", viewport: { width: 1_440, height: 900 } });

/** Opens a page that is signed in with a key. */
async function openPage(desk: Desk, path: string, key: string): Promise<Page> {
  const context = await contextOf(desk);
  const response = await context.request.post("/dashboard/sign-in", { data: { key } });
  if (!response.ok()) throw new Error(`signing in answered ${response.status()}: ${await response.text()}`);
  const page = await context.newPage();
  await page.goto(path);
  return page;
}

/** Waits for the overview with what needs a person. */
const overview = (page: Page): Promise<unknown> =>
  page
    .locator("[data-screen=overview]")
    .getByRole("region", { name: "What needs you" })
    .getByRole("listitem")
    .first()
    .waitFor();

/** Registers an MCP server of which every definition is in force, so that one may change in each round. */
async function addMcpServer(rest: Rest, upstream: ToolsServer): Promise<void> {
  await rest("POST /v1/enforce/mcp-servers", { name: "bank", url: upstream.url, mode: "quarantine" });
  await rest("POST /v1/enforce/mcp-servers/bank:refresh", {});
  for (const { name } of upstream.tools) {
    await rest(`POST /v1/enforce/mcp-servers/bank/tools/${name}:accept`, { version: 1 });
  }
}

async function secondsOf(run: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await run();
  return (performance.now() - startedAt) / 1_000;
}

/** Signs in with the key in a new browser context; the time ends when the overview shows what needs the person. */
async function signIn(desk: Desk): Promise<number> {
  const context = await contextOf(desk);
  const page = await context.newPage();
  await page.goto("/");
  await page.waitForSelector("input[name=key]");
  const seconds = await secondsOf(async () => {
    await page.fill("input[name=key]", desk.week.apiKey);
    await page.click("[data-action=sign-in]");
    await overview(page);
  });
  await context.close();
  return seconds;
}

/** Does every task once, each from the overview. */
async function doRound(desk: Desk, round: number, seconds: Map<string, number[]>): Promise<void> {
  const note = (name: string, value: number): void => {
    seconds.set(name, [...(seconds.get(name) ?? []), value]);
    console.error(`round ${round + 1}  ${name.padEnd(42)} ${figure(value).padStart(6)} s`);
  };
  note("sign in", await signIn(desk));
  const page = await openPage(desk, "/overview", desk.week.apiKey);
  const rest = restTo(desk.http, desk.week.apiKey);
  const context: TaskContext = { page, rest, week: desk.week, upstream: desk.upstream, round };
  for (const task of TASKS) {
    await task.prepare?.(context);
    await page.goto("/overview");
    await overview(page);
    note(task.name, await secondsOf(() => task.run(context)));
  }
  await page.context().close();
}

/** Scrolls through the escalations that wait. */
async function longestOfQueue(desk: Desk, key: string, waiting: number): Promise<number> {
  const page = await openPage(desk, "/escalations", key);
  await page.getByText(`Pending (${waiting})`).waitFor({ timeout: LOADED_MS });
  const list = page.locator(".virtual").first();
  await list.hover();
  const longest = await longestTask(desk.browser, page, async () => {
    for (let step = 0; step < STEPS; step++) {
      await page.mouse.wheel(0, STEP_PIXELS);
      await pause(STEP_MS);
    }
    await list.evaluate((element) => {
      element.scrollTop = element.scrollHeight;
    });
    await page.locator(".virtual [data-id]").last().waitFor();
    await pause(SETTLE_MS);
  });
  await page.context().close();
  return longest;
}

/** Scrolls through all decisions. */
async function longestOfFeed(desk: Desk, key: string, decisions: number): Promise<number> {
  const page = await openPage(desk, "/decisions", key);
  await page.waitForSelector(ROW);
  const longest = await longestTask(desk.browser, page, async () => {
    await scrollToEnd(page, "Decisions, newest first", showsDecisions(page, decisions));
  });
  await page.context().close();
  return longest;
}

const taskCheck = (name: string, ms: number): Check => ({
  name: `longest task of the page, ${name}`,
  figures: [ms],
  bound: { atMost: MAX_TASK_MS },
  unit: "ms",
});

/**
 * Seconds of each task of an approver's day on a service with 40 agents, 25 escalations and a week of decisions, done by a browser as fast
 * as the page allows, and the longest task of the page with many rows.
 */
export async function measureDashboard(
  { dashboard: { waiting, decisions } }: BenchOptions,
  postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  if (!existsSync(CHROMIUM)) return { text: `dashboard: left out, there is no ${CHROMIUM}`, checks: [] };
  execFileSync(process.execPath, [DASHBOARD_BUILD], { stdio: ["ignore", 2, 2] });
  const databaseUrl = await postgres.createDatabase("dashboard");
  const size = { workspaceId: "feed", agents: 50, otherMandates: 0, decisions };
  const feed = await addWorkspace(databaseUrl, size);
  const crowd = await seedWeek({ databaseUrl, workspaceId: "crowd", decisions: 0, waiting });
  const week = await seedWeek({ databaseUrl });
  const upstream = await startToolsServer(Array.from({ length: ROUNDS }, (_, index) => tool(`tool-${index}`)));
  cleanup.defer(() => upstream.close());
  const server = await startServer({ databaseUrl, env: { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_LOG_LEVEL: "warn" } });
  cleanup.defer(async () => void (await server.stop()));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_FLAGS });
  cleanup.defer(() => browser.close());
  const desk: Desk = { http: server.http, browser, week, upstream };
  await addMcpServer(restTo(server.http, week.apiKey), upstream);
  const seconds = new Map<string, number[]>();
  for (let round = 0; round < ROUNDS; round++) await doRound(desk, round, seconds);
  const checks = [
    taskCheck(`${waiting.toLocaleString("en")} waiting`, await longestOfQueue(desk, crowd.apiKey, waiting)),
    taskCheck(`${decisions.toLocaleString("en")} decisions`, await longestOfFeed(desk, feed.apiKey, decisions)),
  ];
  const rows = [...seconds].map(([name, values]) => [name, figure(median(values)), rangeOf(values)]);
  return { text: tableFrom(["task on the dashboard", "s", `of ${ROUNDS} rounds`], rows), checks };
}
