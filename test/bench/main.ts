import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { measureBudgets } from "./budgets.ts";
import { startChild } from "./child.ts";
import { measureDashboard } from "./dashboard.ts";
import { measureFootprint } from "./footprint.ts";
import { measureGrowth } from "./growth.ts";
import { measureNotifications } from "./notifications.ts";
import { type BenchOptions, optionsFrom } from "./options.ts";
import { measurePeer } from "./peer.ts";
import { startBenchPostgres } from "./postgres.ts";
import { measureProvenance } from "./provenance.ts";
import { checksTable, holds } from "./report.ts";
import { measureThroughput, type PartReport } from "./throughput.ts";
import { measureTurns } from "./turns.ts";
import { measureVault } from "./vault.ts";
import { measureWorkers } from "./workers.ts";

const PARTS = {
  throughput: measureThroughput,
  growth: measureGrowth,
  vault: measureVault,
  footprint: measureFootprint,
  turns: measureTurns,
  workers: measureWorkers,
  dashboard: measureDashboard,
  budgets: measureBudgets,
  provenance: measureProvenance,
  notifications: measureNotifications,
  peer: measurePeer,
};

async function runParts(options: BenchOptions, cleanup: AsyncDisposableStack): Promise<PartReport[]> {
  const postgres = await startBenchPostgres(cleanup);
  const load = startChild("load-process.ts");
  cleanup.defer(() => load.end());
  const reports: PartReport[] = [];
  for (const part of options.parts) {
    await using partCleanup = new AsyncDisposableStack();
    reports.push(await PARTS[part](options, postgres, load, partCleanup));
  }
  return reports;
}

const cleanup = new AsyncDisposableStack();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void cleanup.disposeAsync().finally(() => process.exit(1)));
}

try {
  const options = optionsFrom(process.argv.slice(2));
  const [loadBefore] = loadavg();
  const reports = await runParts(options, cleanup);
  const memory = Math.round(totalmem() / 2 ** 30);
  console.log(`${availableParallelism()} cores (${cpus()[0]?.model.trim()}), ${memory} GiB, Node ${process.version}`);
  console.log(
    `median of ${options.rounds} rounds of ${options.seconds} s; load, service and database share the machine`,
  );
  console.log(`load average before the run: ${loadBefore?.toFixed(1)}; well above 0, others take part of the machine`);
  for (const { text } of reports) console.log(`\n${text}`);
  const checks = reports.flatMap(({ checks }) => checks);
  if (checks.length > 0) console.log(`\n${checksTable(checks)}`);
  if (!checks.every(holds)) process.exitCode = 1;
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
