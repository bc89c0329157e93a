import type { Child } from "./child.ts";
import type { Measured, Source } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, median, rangeOf, tableFrom } from "./report.ts";
import { addWorkspace, type BenchWorkspace, planFor, startService } from "./service.ts";
import type { PartReport } from "./throughput.ts";

const PROCESSES = [1, 2];
/** Workspaces, with a stream on a connection of its own to each, so that both processes have their share. */
const WORKSPACES = 8;
const IN_FLIGHT = 64;
const SIZE = { agents: 50, otherMandates: 0, decisions: 1_000 };

async function seedWorkspaces(postgres: BenchPostgres, name: string): Promise<BenchWorkspace[]> {
  const databaseUrl = await postgres.createDatabase(name);
  const workspaces: BenchWorkspace[] = [];
  while (workspaces.length < WORKSPACES) {
    workspaces.push(await addWorkspace(databaseUrl, { workspaceId: `bench-${workspaces.length}`, ...SIZE }));
  }
  return workspaces;
}

/** Measures a service of so many processes, started anew: two starts of the same code differ by more than a few turns do. */
async function measureOnce(
  processes: number,
  workspaces: readonly BenchWorkspace[],
  { seconds }: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
): Promise<Measured> {
  await using cleanup = new AsyncDisposableStack();
  const env = { ACP_WORKERS: String(processes), ACP_LOG_LEVEL: "warn" };
  const service = await startService(workspaces[0] as BenchWorkspace, cleanup, env);
  const targets = workspaces.map(({ apiKey, agentIds }) => ({ address: service.grpc.address, apiKey, agentIds }));
  const source: Source = { kind: "stream", targets, streams: WORKSPACES, inFlight: IN_FLIGHT };
  // Awaited here: the service stops with this block.
  return await load.ask<Measured>(planFor(source, seconds, service, postgres));
}

/** Decisions a second on several workspaces by one process and by two. Printed without a bound: the cores are shared. */
export async function measureWorkers(options: BenchOptions, postgres: BenchPostgres, load: Child): Promise<PartReport> {
  const workspaces = await seedWorkspaces(postgres, "workers");
  const results = new Map<number, Measured[]>(PROCESSES.map((processes) => [processes, []]));
  for (let round = 1; round <= options.rounds; round++) {
    for (const processes of round % 2 === 0 ? PROCESSES : PROCESSES.toReversed()) {
      const measured = await measureOnce(processes, workspaces, options, postgres, load);
      results.get(processes)?.push(measured);
      console.error(`round ${round}  ${processes} processes ${figure(measured.perSecond).padStart(8)}/s`);
    }
  }
  const rows = PROCESSES.map((processes) => {
    const all = results.get(processes) ?? [];
    const mid = (read: (measured: Measured) => number): string => figure(median(all.map(read)));
    const rates = all.map(({ perSecond }) => perSecond);
    return [
      `${processes}`,
      mid(({ perSecond }) => perSecond),
      mid(({ p50 }) => p50),
      mid(({ p99 }) => p99),
      rangeOf(rates),
    ];
  });
  const headings = ["processes on 8 workspaces", "decisions/s", "p50 ms", "p99 ms", "of all rounds"];
  const [one = [], two = []] = PROCESSES.map((processes) => results.get(processes));
  const ratio = figure(median(two.map(({ perSecond }, round) => perSecond / (one[round] as Measured).perSecond)));
  return { text: `${tableFrom(headings, rows)}\n2 processes decide ${ratio} x what 1 decides`, checks: [] };
}
