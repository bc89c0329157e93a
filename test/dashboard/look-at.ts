import type { BrowserContext, Page } from "playwright-core";
import { type AxeViolation, seriousViolations, widerThanThePage } from "./browser.ts";
import type { FurnishedWeek } from "./furnished-week.ts";
import { VIEWS, type View } from "./views.ts";

/** Widths of pages that are looked at, pixels: a desk, a tablet on its side, a phone. */
export const WIDTHS_SEEN = [1_440, 1_024, 390] as const;
/** Themes of pages that are looked at. */
export const THEMES_SEEN = ["light", "dark"] as const;
const HEIGHT = 900;

/** Theme of a page. */
export type Theme = (typeof THEMES_SEEN)[number];

/** One view at one width in one theme. */
export interface Seen {
  readonly view: string;
  readonly width: number;
  readonly theme: Theme;
  readonly violations: readonly AxeViolation[];
  /** Parts that are wider than their place. */
  readonly wider: readonly string[];
}

/** Sum of the layout shifts while a view was opened. */
export interface Shifted {
  readonly view: string;
  readonly width: number;
  readonly sum: number;
  /** Parts that moved, the first of each shift. */
  readonly moved: readonly string[];
}

/** A view that could not be opened. */
export interface Unseen {
  readonly view: string;
  readonly width: number;
  readonly fault: string;
}

/** Everything that was looked at. */
export interface Looked {
  readonly seen: readonly Seen[];
  readonly shifted: readonly Shifted[];
  readonly unseen: readonly Unseen[];
}

/** How views are looked at. */
export interface LookOptions {
  /** Views. Default: all. */
  readonly views?: readonly View[];
  readonly widths?: readonly number[];
  readonly themes?: readonly Theme[];
  /** Opens a view anew at each width, for its layout shifts. Default: it is opened at the first one, and the page is resized. */
  readonly opensAnew?: boolean;
  /** Pages that are open at once. Default 2. */
  readonly atOnce?: number;
  /** Called with each page as it is looked at. */
  readonly onSeen?: (page: Page, seen: Seen) => Promise<void>;
}

interface Shifts {
  sum: number;
  readonly moved: string[];
}

type LayoutShift = PerformanceEntry & {
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
};

/** Sums the layout shifts of a page that no press of a person caused. */
function observeShifts(): void {
  const shifts: Shifts = { sum: 0, moved: [] };
  Object.assign(window, { shifts });
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries() as LayoutShift[]) {
      if (hadRecentInput) continue;
      shifts.sum += value;
      const node = sources[0]?.node;
      const element = node instanceof Element ? node : node?.parentElement;
      const name = element?.getAttribute("aria-label") ?? element?.className ?? "nothing that is left";
      shifts.moved.push(`${element?.tagName ?? ""} ${name}`);
    }
  }).observe({ type: "layout-shift", buffered: true });
}

const shiftsOf = (page: Page): Promise<Shifts> =>
  page.evaluate(async () => {
    // The observer is told of shifts after the frame in which they happen.
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return (window as unknown as { shifts: Shifts }).shifts;
  });

/** Waits until nothing is read any more, and everything has its size. */
async function settle(page: Page): Promise<void> {
  await page.waitForFunction(() => document.querySelector("main .loading, [role=dialog] .loading") === null);
  await page.evaluate(async () => {
    await document.fonts.ready;
    // Charts take a new width in the frame after the one that has it.
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
  });
}

/** Opens each view, and looks at it at each width in each theme. */
export async function lookAt(week: FurnishedWeek, options: LookOptions = {}): Promise<Looked> {
  const { views = VIEWS, widths = WIDTHS_SEEN, opensAnew = false, atOnce = 2 } = options;
  const contexts = await openContexts(week);
  const looked = { seen: [] as Seen[], shifted: [] as Shifted[], unseen: [] as Unseen[] };
  const tasks = views.flatMap((view) =>
    opensAnew ? widths.map((width) => ({ view, widths: [width] })) : [{ view, widths }],
  );
  const work = async (): Promise<void> => {
    for (let next = tasks.shift(); next !== undefined; next = tasks.shift()) {
      const { view, widths: own } = next;
      const page = await contexts[view.as ?? "week"].newPage();
      await lookAtOne(page, view, own, { week, options, looked }).catch(async (error: unknown) => {
        const text = await page.evaluate(() => document.body.innerText.slice(0, 600)).catch(String);
        looked.unseen.push({ view: view.name, width: own[0] ?? 0, fault: `${error}\n${text}` });
      });
      await page.close();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  await Promise.all(Object.values(contexts).map((context) => context.close()));
  return looked;
}

interface Look {
  readonly week: FurnishedWeek;
  readonly options: LookOptions;
  readonly looked: { readonly seen: Seen[]; readonly shifted: Shifted[] };
}

async function lookAtOne(page: Page, view: View, widths: readonly number[], look: Look): Promise<void> {
  const { week, options, looked } = look;
  const { themes = THEMES_SEEN, onSeen } = options;
  const [first = 0] = widths;
  page.setDefaultTimeout(60_000);
  await page.setViewportSize({ width: first, height: HEIGHT });
  await page.goto(view.path(week));
  await page.locator(view.ready).first().waitFor();
  await view.open?.(page, week);
  await settle(page);
  looked.shifted.push({ view: view.name, width: first, ...(await shiftsOf(page)) });
  for (const width of widths) {
    await page.setViewportSize({ width, height: HEIGHT });
    await settle(page);
    for (const theme of themes) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
      const wider = await widerThanThePage(page);
      // The other rules do not depend on the theme.
      const violations = await seriousViolations(page, theme === themes[0] ? undefined : "colours");
      const seen = { view: view.name, width, theme, violations, wider };
      looked.seen.push(seen);
      await onSeen?.(page, seen);
    }
  }
}

/** Opens a browser context for each key with which views are signed in. */
async function openContexts({
  dashboard,
  week,
  emptyKey,
}: FurnishedWeek): Promise<Readonly<Record<"week" | "empty" | "nobody", BrowserContext>>> {
  const contextFor = async (key: string | undefined): Promise<BrowserContext> => {
    const context = await dashboard.browser.newContext({
      baseURL: dashboard.service.http,
      timezoneId: "Europe/Berlin",
    });
    await context.addInitScript(observeShifts);
    if (key !== undefined) await context.request.post("/dashboard/sign-in", { data: { key } });
    return context;
  };
  return {
    week: await contextFor(week.apiKey),
    empty: await contextFor(emptyKey),
    nobody: await contextFor(undefined),
  };
}

/** Counts what axe-core found: `60 screens × 3 widths × 2 themes: 0 serious, 0 critical`. */
export function summaryOf({ seen, shifted }: Looked): string {
  const sizeOf = (key: "view" | "width" | "theme"): number => new Set(seen.map((each) => each[key])).size;
  const countOf = (impact: string): number =>
    seen.reduce((sum, { violations }) => sum + violations.filter((each) => each.impact === impact).length, 0);
  const wider = seen.reduce((sum, each) => sum + each.wider.length, 0);
  const worst = shifted.reduce((most, each) => (each.sum > most.sum ? each : most), {
    view: "none",
    width: 0,
    sum: 0,
    moved: [],
  });
  const sum = shifted.reduce((total, each) => total + each.sum, 0);
  return [
    `${sizeOf("view")} screens × ${sizeOf("width")} widths × ${sizeOf("theme")} themes: ${countOf("serious")} serious, ${countOf("critical")} critical, ${wider} wider than the page`,
    `layout shifts: ${sum.toFixed(3)} in all, at most ${worst.sum.toFixed(3)} (${worst.view} at ${worst.width})`,
  ].join("\n");
}
