import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import axe from "axe-core";
import { expect } from "chai";
import type { Suite } from "mocha";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { startService, type TestService, type TestServiceOptions } from "../support/service.ts";

/** Debian's Chromium, as the shell without windows if it is there, which takes half of the time. */
const INSTALLED = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
/** Path of the browser; that of Debian's package even if it is not installed. */
export const CHROMIUM = process.env.CHROMIUM ?? INSTALLED.find((path) => existsSync(path)) ?? "/usr/bin/chromium";
const ROOT = join(import.meta.dirname, "..", "..");
/** Git-ignored. */
const SCREENSHOTS = join(ROOT, ".generated", "screenshots");
/** Flags of a browser for tests. */
export const BROWSER_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-dev-shm-usage",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The dashboard of a service in a browser. */
export interface Dashboard {
  readonly service: TestService;
  readonly browser: Browser;
  /** Opens a page, signed in with the administrator's key or another, in a browser context of its own. */
  open(path: string, options?: OpenOptions): Promise<Page>;
  close(): Promise<void>;
}

/** How a page is opened. */
export interface OpenOptions {
  /** Default: the administrator's. Null: nobody is signed in. */
  readonly key?: string | null;
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
  /** A context of another page, which shares its sign-in. */
  readonly context?: BrowserContext;
}

/** Open browsers, whose pages are described when a test fails. */
const browsers = new Set<Browser>();
/** Contexts that the running test has opened. */
const contextsOfTest = new Set<BrowserContext>();

/**
 * Describes tests that need Chromium; without it they are left out, and the name says so. Pages that a test opens are closed
 * after it: each keeps its streams and its timers as long as it is open.
 */
export function describeInBrowser(title: string, define: (this: Suite) => void): void {
  if (existsSync(CHROMIUM)) {
    describe(title, function () {
      beforeEach(() => contextsOfTest.clear());
      define.call(this);
      afterEach(async function () {
        if (this.currentTest?.state === "failed") await describePages();
        await Promise.all([...contextsOfTest].map((context) => context.close()));
      });
    });
  } else
    describe.skip(
      `${title} (left out: there is no ${CHROMIUM}; install Debian's package \`chromium-headless-shell\`)`,
      define,
    );
}

/** Prints the address and the text of every open page. */
async function describePages(): Promise<void> {
  const pages = [...browsers].flatMap((browser) => browser.contexts()).flatMap((context) => context.pages());
  for (const page of pages) {
    const seen = page.evaluate(() => `${document.visibilityState}, ${document.body.innerText.slice(0, 4_000)}`);
    console.error(`open page ${page.url()}: ${await seen.catch(String)}`);
  }
}

/** Builds the dashboard if it is not, starts the service and a browser. */
export async function openDashboard(options: TestServiceOptions = {}): Promise<Dashboard> {
  execFileSync(process.execPath, [join(ROOT, "src/dashboard/build.ts")], { stdio: "inherit" });
  const service = await startService(options);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: BROWSER_FLAGS });
  browsers.add(browser);
  return {
    service,
    browser,
    async open(path, { key = service.adminKey, colorScheme = "light", width = 1280, context: given } = {}) {
      const context =
        given ?? (await browser.newContext({ baseURL: service.http, colorScheme, viewport: { width, height: 900 } }));
      if (given === undefined) contextsOfTest.add(context);
      if (key !== null && given === undefined) {
        const response = await context.request.post("/dashboard/sign-in", { data: { key } });
        expect(response.status(), await response.text()).to.equal(200);
      }
      const page = await context.newPage();
      page.setDefaultTimeout(15_000);
      page.on("pageerror", (error) => console.error(`the page threw ${error.stack ?? error}`));
      page.on("console", (message) => {
        // CodeMirror asks for the width of a tab by an inline style, which is refused; its theme sets it.
        const isStyle = message.text().startsWith("Applying inline style");
        if (message.text().includes("Content Security Policy") && !isStyle) console.error(message.text());
      });
      await page.goto(path);
      return page;
    },
    async close() {
      browsers.delete(browser);
      await browser.close();
      await service.stop();
    },
  };
}

/** Takes a screenshot of a page into a git-ignored folder. */
export async function screenshot(page: Page, name: string): Promise<void> {
  await mkdir(SCREENSHOTS, { recursive: true });
  // The content scrolls within the page.
  const height = await page.evaluate(() => {
    const main = document.querySelector("main#content");
    return main === null ? 900 : main.scrollHeight + main.getBoundingClientRect().top;
  });
  const size = page.viewportSize();
  if (size !== null) await page.setViewportSize({ ...size, height: Math.min(3_000, Math.max(900, Math.ceil(height))) });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

/** Fault that axe-core found. */
export interface AxeViolation {
  readonly id: string;
  readonly impact: string | null;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

const AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/** Rules whose result depends on the theme. */
const AXE_COLOURS = ["color-contrast", "link-in-text-block"];

/**
 * Returns the serious and critical faults that axe-core finds on a page (WCAG 2.2 A and AA); of `colours` alone, those that a theme
 * may have.
 */
export async function seriousViolations(page: Page, of?: "colours"): Promise<readonly AxeViolation[]> {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  const runOnly = of === undefined ? { type: "tag", values: AXE_TAGS } : { type: "rule", values: AXE_COLOURS };
  const found = await page.evaluate(async (only) => {
    const inPage = (window as unknown as { axe: { run(options: object): Promise<{ violations: unknown[] }> } }).axe;
    return (await inPage.run({ runOnly: only, resultTypes: ["violations"] })).violations;
  }, runOnly);
  return (found as AxeViolation[]).filter(({ impact }) => impact === "serious" || impact === "critical");
}

/** Asserts that axe-core finds nothing serious or critical on a page. */
export async function assertAccessible(page: Page): Promise<void> {
  const text = (await seriousViolations(page)).map(
    ({ id, help, nodes }) =>
      `${id}: ${help}\n  ${nodes
        .map(({ html, failureSummary }) => `${html} ${failureSummary ?? ""}`)
        .slice(0, 5)
        .join("\n  ")}`,
  );
  expect(text.join("\n"), `${page.url()}`).to.equal("");
}

/** Returns the parts of a page that are wider than their place: the document, its content, a dialog. */
export function widerThanThePage(page: Page): Promise<readonly string[]> {
  return page.evaluate(() =>
    [document.documentElement, document.querySelector("main"), document.querySelector("[role=dialog]")]
      .filter((element) => element !== null && element.scrollWidth > element.clientWidth + 1)
      .map((element) => `${element?.tagName} is ${element?.scrollWidth} wide in ${element?.clientWidth}`),
  );
}

/** Asserts that nothing of a page lies beside it, so that nobody has to scroll sideways. */
export async function assertFits(page: Page): Promise<void> {
  expect((await widerThanThePage(page)).join("; "), page.url()).to.equal("");
}

/** Pixels of the widest page that shows cards: its navigation takes a fifth. */
const WIDEST_CARDS = 1_040;
/** Widths at which tables are looked at beside a page's own, pixels: the widest cards, the narrowest columns, a wide screen. */
const WIDTHS = [WIDEST_CARDS, WIDEST_CARDS + 10, 1_900];

/**
 * Asserts how a table of a screen is laid out at the page's width and at others: on a wide page each cell stands under the heading
 * of its column, on a narrow one the cells of a row stand below each other and carry the headings as labels. Nothing is cut off.
 * `titles`: the headings of all columns.
 */
export async function assertColumns(page: Page, label: string, titles: readonly string[]): Promise<void> {
  const size = page.viewportSize() ?? { width: 1280, height: 900 };
  for (const width of [...WIDTHS, size.width]) {
    await page.setViewportSize({ ...size, width });
    await assertColumnsNow(page, label, titles);
    await assertFits(page);
  }
}

async function assertColumnsNow(page: Page, label: string, titles: readonly string[]): Promise<void> {
  const table = page.getByRole("table", { name: label, exact: true });
  await table.getByRole("cell").first().waitFor();
  const { headings, cells } = await table.evaluate((element) => {
    const placed = (each: Element) => {
      const { x, y, width } = each.getBoundingClientRect();
      return { x, y, width };
    };
    const row = element.querySelector('li[role="row"]');
    return {
      headings: [...element.querySelectorAll('[role="columnheader"]')].map((each) => ({
        text: each.textContent,
        place: placed(each),
      })),
      cells: [...(row?.querySelectorAll(':scope [role="cell"]') ?? [])].map((each) => ({
        text: each.getAttribute("data-title"),
        place: placed(each),
        isShown: each.checkVisibility(),
      })),
    };
  });
  expect(cells.map(({ text }) => text || "Actions")).to.deep.equal(titles);
  const sideways = await table
    .locator(".virtual")
    .evaluate(({ scrollWidth, clientWidth }) => `${scrollWidth} wide in ${clientWidth}`);
  expect(sideways).to.match(/^(\d+) wide in \1$/);
  if ((page.viewportSize()?.width ?? 0) > WIDEST_CARDS) {
    expect(headings.map(({ text }) => text)).to.deep.equal(titles);
    for (const [index, { place }] of cells.entries()) {
      expect(place.x, titles[index]).to.be.closeTo(headings[index]?.place.x ?? 0, 2);
      expect(place.width, titles[index]).to.be.closeTo(headings[index]?.place.width ?? 0, 2);
    }
    return;
  }
  expect(await table.getByRole("columnheader").count(), "headings that are read").to.equal(0);
  const tops = cells.filter(({ isShown }) => isShown).map(({ place }) => place.y);
  expect(tops, "tops of the cells").to.deep.equal([...new Set(tops)].sort((a, b) => a - b));
}

/** Appearances in which every screen is looked at. */
export const APPEARANCES = [
  { name: "light", colorScheme: "light", width: 1280 },
  { name: "dark", colorScheme: "dark", width: 1280 },
  { name: "phone", colorScheme: "light", width: 390 },
] as const;
