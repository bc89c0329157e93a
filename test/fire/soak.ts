import { setTimeout as delay } from "node:timers/promises";
import { memoryMib } from "../bench/cpu.ts";
import type { BenchPostgres } from "../bench/postgres.ts";
import { median } from "../bench/report.ts";
import { seedWorkspace, startService } from "../bench/service.ts";
import { runWrk } from "../bench/tools.ts";
import { withOwner } from "../support/owner.ts";

/** Size of a soak. */
export interface SoakSize {
  readonly callers: number;
  /** Length of each of ten equal parts, milliseconds; a minute in the long form. */
  readonly partMs: number;
}

/** Result of a soak. Parts count from 1. */
export interface SoakReport {
  readonly decisions: number;
  /** Median of the rates of single seconds, decisions a second, in parts 3 and 4. */
  readonly early: number;
  /** The same in parts 9 and 10. */
  readonly late: number;
  /** Resident memory of the service after part 3, and at the end, in MiB. */
  readonly rssEarly: number;
  readonly rssLate: number;
}

const AGENTS = 100;
const SECOND = 1_000;
const PARTS = 10;

/** Calls one replica over REST at full rate, and reads each second how many entries its log has and how much memory it takes. */
export async function runSoak(postgres: BenchPostgres, { callers, partMs }: SoakSize): Promise<SoakReport> {
  await using cleanup = new AsyncDisposableStack();
  const workspace = await seedWorkspace(postgres, "soak", { agents: AGENTS, otherMandates: 0, decisions: 1_000 });
  const { server, rest } = await startService(workspace, cleanup);
  const load = runWrk({ kind: "rest", target: rest, callers }, partMs * PARTS);
  const samples: { readonly atMs: number; readonly entries: number; readonly rss: number }[] = [];
  await withOwner(workspace.databaseUrl, async (client) => {
    const startedAt = performance.now();
    for (let second = 0; second * SECOND <= partMs * PARTS; second++) {
      await delay(Math.max(0, startedAt + second * SECOND - performance.now()));
      const { rows } = await client.query("select coalesce(sum(seq), 0)::float8 as entries from ledger_head");
      samples.push({
        atMs: performance.now() - startedAt,
        entries: rows[0].entries,
        rss: memoryMib(server.pid),
      });
    }
  });
  const { replies } = await load;
  const rates = samples.slice(1).map(({ atMs, entries }, index) => {
    const before = samples[index] as (typeof samples)[number];
    return { atMs, rate: ((entries - before.entries) * SECOND) / (atMs - before.atMs) };
  });
  const medianIn = (first: number, last: number): number =>
    median(rates.filter(({ atMs }) => atMs > (first - 1) * partMs && atMs <= last * partMs).map(({ rate }) => rate));
  return {
    decisions: replies,
    early: medianIn(3, 4),
    late: medianIn(9, 10),
    rssEarly: samples.findLast(({ atMs }) => atMs <= 3 * partMs)?.rss ?? Number.NaN,
    rssLate: samples.at(-1)?.rss ?? Number.NaN,
  };
}
