/*
 * How many decisions a second a backtest decides again, how much memory it takes, and what other callers keep beside it. Run with
 * `node --expose-gc test/bench/backtest.ts [decisions]`.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Report } from "../../src/dryrun/backtest/report.ts";
import { DryRuns } from "../../src/dryrun/dry-runs.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import { LongChecker } from "../../src/policy/long/checker.ts";
import { openDatabase } from "../../src/store/database.ts";
import { ReadOnlyDatabase } from "../../src/store/transaction.ts";
import { withClient } from "../support/database.ts";
import { type BenchPostgres, SILENT_LOG, startBenchPostgres } from "./postgres.ts";
import { figure, tableFrom } from "./report.ts";
import { type BenchWorkspace, seedWorkspace, startService } from "./service.ts";

const LARGE = Number(process.argv[2] ?? 500_000);
const SMALL = LARGE / 100;
const AGENTS = 100;
/** Decisions a second that a backtest decides again, at least. */
const LEAST_SPEED = 20_000;
/** Share of their decisions a second that other callers keep beside a backtest, at least. */
const LEAST_SHARE = 0.8;
const CALLERS = 16;
const MIB = 1_048_576;

const collect = (): void => (globalThis as { gc?: () => void }).gc?.();

/** Backtests a whole log in this process; gives decisions a second, and the most memory in use at a message of progress, in MiB. */
async function measure({ databaseUrl: url }: BenchWorkspace) {
  const database = await openDatabase({ url, poolSize: 4, log: SILENT_LOG });
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  const checker = new LongChecker();
  const dryRuns = new DryRuns({ logs, reads: new ReadOnlyDatabase(database.pool), checker });
  const run = async (onProgress: () => void): Promise<Report> => {
    const none = { drafts: [], lists: [], archives: [], sinceMs: undefined, untilMs: undefined, agentId: undefined };
    const { signal } = new AbortController();
    let report: Report | undefined;
    for await (const event of dryRuns.backtest({
      workspaceId: "bench",
      ...none,
      listsChanges: false,
      onlyDrafts: false,
      signal,
    })) {
      if (event.kind === "report") report = event.report;
      else onProgress();
    }
    if (report === undefined) throw new Error("no report");
    return report;
  };
  const startedAt = performance.now();
  const { replayed, stricter, looser } = await run(() => undefined);
  const seconds = (performance.now() - startedAt) / 1_000;
  if (stricter + looser > 0) throw new Error(`${stricter + looser} decisions changed without drafts`);
  const before = inUse();
  let most = 0;
  await run(() => {
    most = Math.max(most, inUse() - before);
  });
  await checker.close();
  await logs.close();
  await database.close();
  return { replayed, speed: replayed / seconds, memory: most / MIB };
}

/** Bytes in use once garbage is collected. */
function inUse(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Decisions a second of some callers, alone and beside a backtest of the same workspace. */
async function measureOthers(workspace: BenchWorkspace, cleanup: AsyncDisposableStack): Promise<readonly number[]> {
  const { server } = await startService(workspace, cleanup);
  const headers = { "x-api-key": workspace.apiKey, "content-type": "application/json" };
  const post = (path: string, body: object, signal?: AbortSignal) =>
    fetch(server.http + path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null });
  let decided = 0;
  let isOver = false;
  const callers = Array.from({ length: CALLERS }, async (_, index) => {
    const agent_id = workspace.agentIds[index % workspace.agentIds.length];
    while (!isOver) {
      await (await post("/v1/enforce/intercept", { agent_id, action_type: "file.read" })).arrayBuffer();
      decided += 1;
    }
  });
  const rate = async (ms: number): Promise<number> => {
    const before = decided;
    await delay(ms);
    return ((decided - before) * 1_000) / ms;
  };
  await delay(2_000);
  const rates: number[] = [];
  for (let round = 0; round < 3; round++) {
    const alone = await rate(3_000);
    const leaving = new AbortController();
    const running = post("/v1/enforce/backtest", {}, leaving.signal).then((reply) => reply.arrayBuffer());
    running.catch(() => undefined);
    await delay(500);
    rates.push((await rate(3_000)) / alone);
    leaving.abort();
    await delay(500);
  }
  isOver = true;
  await Promise.all(callers);
  return rates;
}

async function seed(postgres: BenchPostgres, decisions: number): Promise<BenchWorkspace> {
  const workspace = await seedWorkspace(postgres, `backtest_${decisions}`, {
    agents: AGENTS,
    otherMandates: 0,
    decisions,
  });
  // As PostgreSQL does by itself some time after rows were added: the first to read them would do its work.
  await withClient(workspace.databaseUrl, (client) => client.query("vacuum (analyze)"));
  return workspace;
}

const cleanup = new AsyncDisposableStack();
try {
  const postgres = await startBenchPostgres(cleanup);
  const rows: string[][] = [];
  let large: BenchWorkspace | undefined;
  for (const decisions of [SMALL, LARGE]) {
    large = await seed(postgres, decisions);
    const { replayed, speed, memory } = await measure(large);
    const bound = decisions === LARGE ? (speed >= LEAST_SPEED ? "PASS" : "FAIL") : "";
    rows.push([String(replayed), figure(speed), figure(memory), bound]);
  }
  console.log(
    tableFrom(["decisions", "decided again a second", "memory in use, MiB", `>= ${LEAST_SPEED} a second`], rows),
  );
  if (large !== undefined) {
    const shares = await measureOthers(large, cleanup);
    const [, middle = 0] = shares.toSorted((a, b) => a - b);
    console.log(`share that ${CALLERS} other callers keep: ${shares.map(figure).join(", ")}; at least ${LEAST_SHARE}`);
    if (middle < LEAST_SHARE) process.exitCode = 1;
  }
} finally {
  await cleanup.disposeAsync();
}
