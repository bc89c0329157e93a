import { expect } from "chai";
import type { Browser, Page } from "playwright-core";

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Time on the processor, microseconds. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/**
 * Returns the longest task of a page while something is done, in milliseconds of the processor: what other processes take of the
 * core does not count.
 */
export async function longestTask(browser: Browser, page: Page, run: () => Promise<void>): Promise<number> {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline"] });
  await run();
  const trace = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const isMain = ({ name, args }: TraceEvent): boolean => name === "thread_name" && args?.name === "CrRendererMain";
  const threads = new Set(trace.traceEvents.filter(isMain).map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = trace.traceEvents.filter(
    ({ name, pid, tid }) => name.endsWith("RunTask") && threads.has(`${pid} ${tid}`),
  );
  expect(tasks.length).to.be.above(100);
  const longest = tasks.reduce((most, { tdur = 0 }) => Math.max(most, tdur / 1_000), 0);
  console.log(`      longest task ${longest.toFixed(0)} ms of the processor`);
  return longest;
}
