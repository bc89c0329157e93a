import type { Child } from "./child.ts";
import type { Measured, Source } from "./load/plan.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import { addWorkspace, type BenchService, type BenchWorkspace, planFor, startService } from "./service.ts";
import { type PartReport, WARM_UP_SECONDS } from "./throughput.ts";

const PROCESSES = [1, 2];
const WORKSPACES = [1, 8];
/** Streams of the load, each on a connection of its own, so that both processes have their share. */
const STREAMS = 8;
const IN_FLIGHT = 64;
/** Least that two processes decide, by what one does. */
const AT_LEAST = 1;
const SIZE = { agents: 50, otherMandates: 0, decisions: 1_000 };

interface Station {
  readonly processes: number;
  readonly workspaces: number;
  readonly service: BenchService;
  readonly source: Source;
}

function streamsOver(service: BenchService, workspaces: readonly BenchWorkspace[]): Source {
  const sources = Array.from({ length: STREAMS }, (_, index): Source => {
    const { apiKey, agentIds } = workspaces[index % workspaces.length] as BenchWorkspace;
    return {
      kind: "stream",
      target: { address: service.grpc.address, apiKey, agentIds },
      streams: 1,
      inFlight: IN_FLIGHT,
    };
  });
  return { kind: "together", sources };
}

/** A database with all workspaces and a service of so many processes on it, for each number of processes. */
async function startAll(postgres: BenchPostgres, cleanup: AsyncDisposableStack): Promise<Station[]> {
  const stations: Station[] = [];
  for (const processes of PROCESSES) {
    const databaseUrl = await postgres.createDatabase(`workers_${processes}`);
    const seeded: BenchWorkspace[] = [];
    for (let index = 0; index < Math.max(...WORKSPACES); index++) {
      seeded.push(await addWorkspace(databaseUrl, { workspaceId: `bench-${index}`, ...SIZE }));
    }
    const env = { ACP_WORKERS: String(processes), ACP_LOG_LEVEL: "warn" };
    const service = await startService(seeded[0] as BenchWorkspace, cleanup, env);
    for (const workspaces of WORKSPACES) {
      const source = streamsOver(service, seeded.slice(0, workspaces));
      stations.push({ processes, workspaces, service, source });
    }
  }
  // Neighbours are compared, so that both see the machine in the same minute.
  return stations.sort((a, b) => a.workspaces - b.workspaces);
}

const keyOf = (processes: number, workspaces: number): string => `${processes} on ${workspaces}`;

type Results = ReadonlyMap<string, Measured[]>;

function ratios(results: Results, workspaces: number): number[] {
  const [one, several] = PROCESSES.map((processes) => results.get(keyOf(processes, workspaces)) ?? []);
  return (several ?? []).map(({ perSecond }, round) => perSecond / (one?.[round]?.perSecond ?? Number.NaN));
}

function reportOf(results: Results): PartReport {
  const rows = WORKSPACES.flatMap((workspaces) =>
    PROCESSES.map((processes) => {
      const all = results.get(keyOf(processes, workspaces)) ?? [];
      const mid = (read: (measured: Measured) => number): string => figure(median(all.map(read)));
      const rate = ({ perSecond }: Measured): number => perSecond;
      return [
        `${processes} / ${workspaces}`,
        mid(rate),
        mid(({ p50 }) => p50),
        mid(({ p99 }) => p99),
        rangeOf(all.map(rate)),
      ];
    }),
  );
  const headings = ["processes / workspaces", "decisions/s", "p50 ms", "p99 ms", "of all rounds"];
  const text = `${tableFrom(headings, rows)}\nthe load and the database share the machine with the processes`;
  const checks: Check[] = WORKSPACES.map((workspaces) => ({
    name: `2 processes / 1 process, ${workspaces} workspace${workspaces === 1 ? "" : "s"}`,
    figures: ratios(results, workspaces),
    bound: { atLeast: AT_LEAST },
    unit: "x",
  }));
  return { text, checks };
}

/** What a second process brings: on one workspace, whose log both append to, and on several, which are independent. */
export async function measureWorkers(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const stations = await startAll(postgres, cleanup);
  const results = new Map<string, Measured[]>();
  for (let round = 0; round <= options.rounds; round++) {
    const seconds = round === 0 ? WARM_UP_SECONDS : options.seconds;
    // Every other round the other way round, so that neither of two neighbours always comes first.
    for (const { processes, workspaces, service, source } of round % 2 === 0 ? stations : stations.toReversed()) {
      const measured = await load.ask<Measured>(planFor(source, seconds, service, postgres));
      const key = keyOf(processes, workspaces);
      // The first round is not kept: it is there for the compilers of all processes.
      if (round > 0) results.set(key, [...(results.get(key) ?? []), measured]);
      console.error(`round ${round}  ${key.padEnd(10)} ${figure(measured.perSecond).padStart(8)}/s`);
    }
  }
  return reportOf(results);
}
