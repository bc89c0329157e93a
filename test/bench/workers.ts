import type { Child } from "./child.ts";
import type { Measured, Source, Target, ToolSource } from "./load/plan.ts";
import { findTools, type Tools, toolsText, withTools } from "./load/tools.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import { addWorkspace, type BenchService, type BenchWorkspace, planFor, startService } from "./service.ts";
import type { PartReport } from "./throughput.ts";

const PROCESSES = [1, 2];
/** Streams of the load, each on a connection of its own, so that both processes have their share. */
const STREAMS = 8;
const IN_FLIGHT = 64;
/** Unary callers of the load, each on a connection of its own. */
const CALLERS = 128;
/** Least that two processes decide, by what one does. */
const AT_LEAST = 1;
const SIZE = { agents: 50, otherMandates: 0, decisions: 1_000 };
/** Turns that a round is cut into: neighbours are compared, and a machine that others use changes within seconds. */
const TURNS = 5;
/** Seconds of each load before the first turn that counts: a service that just started has yet to compile. */
const WARM_UP_SECONDS = 3;
/** Milliseconds before anything of a turn is counted. */
const TURN_WARM_UP_MS = 500;

/** What is asked of the processes. */
interface Load {
  readonly name: string;
  readonly workspaces: number;
  sourceOn(target: Target, workspaces: readonly BenchWorkspace[], databaseUrl: string): Source | ToolSource;
}

interface Station {
  readonly processes: number;
  readonly load: Load;
  readonly service: BenchService;
  readonly source: Source | ToolSource;
}

function streamsOver({ address }: Target, workspaces: readonly BenchWorkspace[]): Source {
  const sources = Array.from({ length: STREAMS }, (_, index): Source => {
    const { apiKey, agentIds } = workspaces[index % workspaces.length] as BenchWorkspace;
    return { kind: "stream", target: { address, apiKey, agentIds }, streams: 1, inFlight: IN_FLIGHT };
  });
  return { kind: "together", sources };
}

const loadsWith = (tools: Tools): Load[] => [
  { name: "1 workspace, streams", workspaces: 1, sourceOn: streamsOver },
  {
    name: "1 workspace, unary",
    workspaces: 1,
    sourceOn: (target, _, databaseUrl) => withTools({ kind: "unary", target, callers: CALLERS }, tools, databaseUrl),
  },
  { name: "8 workspaces, streams", workspaces: 8, sourceOn: streamsOver },
];

/** What a service of so many processes decides on: a database of its own with all workspaces. */
interface Seeded {
  readonly processes: number;
  readonly workspaces: readonly BenchWorkspace[];
}

async function seedAll(loads: readonly Load[], postgres: BenchPostgres): Promise<Seeded[]> {
  const seeded: Seeded[] = [];
  for (const processes of PROCESSES) {
    const databaseUrl = await postgres.createDatabase(`workers_${processes}`);
    const workspaces: BenchWorkspace[] = [];
    for (let index = 0; index < Math.max(...loads.map(({ workspaces }) => workspaces)); index++) {
      workspaces.push(await addWorkspace(databaseUrl, { workspaceId: `bench-${index}`, ...SIZE }));
    }
    seeded.push({ processes, workspaces });
  }
  return seeded;
}

/** A service for each number of processes, under each load. */
async function startAll(
  loads: readonly Load[],
  seeded: readonly Seeded[],
  cleanup: AsyncDisposableStack,
): Promise<Station[]> {
  const services: (Seeded & { readonly service: BenchService })[] = [];
  for (const { processes, workspaces } of seeded) {
    const env = { ACP_WORKERS: String(processes), ACP_LOG_LEVEL: "warn" };
    const service = await startService(workspaces[0] as BenchWorkspace, cleanup, env);
    services.push({ processes, workspaces, service });
  }
  // Neighbours are compared, so that both see the machine in the same seconds.
  return loads.flatMap((load) =>
    services.map(({ processes, workspaces, service }) => {
      const source = load.sourceOn(service.grpc, workspaces.slice(0, load.workspaces), service.workspace.databaseUrl);
      return { processes, load, service, source };
    }),
  );
}

const keyOf = (processes: number, { name }: Load): string => `${processes} / ${name}`;

/** Of each round, what each turn came to. */
type Results = ReadonlyMap<string, Measured[]>[];

const rate = ({ perSecond }: Measured): number => perSecond;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function ratios(results: Results, load: Load): number[] {
  return results.map((round) => {
    const [one, several] = PROCESSES.map((processes) => mean((round.get(keyOf(processes, load)) ?? []).map(rate)));
    return (several ?? Number.NaN) / (one ?? Number.NaN);
  });
}

function reportOf(results: Results, loads: readonly Load[], tools: Tools): PartReport {
  const rows = loads.flatMap((load) =>
    PROCESSES.map((processes) => {
      const key = keyOf(processes, load);
      const all = results.flatMap((round) => round.get(key) ?? []);
      const mid = (read: (measured: Measured) => number): string => figure(median(all.map(read)));
      return [key, mid(rate), mid(({ p50 }) => p50), mid(({ p99 }) => p99), rangeOf(all.map(rate))];
    }),
  );
  const headings = ["processes / load", "decisions/s", "p50 ms", "p99 ms", "of all turns"];
  const shared = "the load and the database share the machine with the processes";
  const text = `${tableFrom(headings, rows)}\n${shared}\n${toolsText(tools)}`;
  const checks: Check[] = loads.map((load) => ({
    name: `2 processes / 1 process, ${load.name}`,
    figures: ratios(results, load),
    bound: { atLeast: AT_LEAST },
    unit: "x",
  }));
  return { text, checks };
}

/**
 * What a second process brings: on one workspace, whose log both append to, and on several, which are independent. Each
 * round has services of its own: two starts of the same code differ by more than what is looked for.
 */
export async function measureWorkers(
  options: BenchOptions,
  postgres: BenchPostgres,
  child: Child,
): Promise<PartReport> {
  const tools = findTools(options.ownLoad);
  const loads = loadsWith(tools);
  const seeded = await seedAll(loads, postgres);
  const results: Map<string, Measured[]>[] = [];
  for (let round = 1; round <= options.rounds; round++) {
    await using services = new AsyncDisposableStack();
    const stations = await startAll(loads, seeded, services);
    const measured = new Map<string, Measured[]>();
    for (let turn = 0; turn <= TURNS; turn++) {
      const seconds = turn === 0 ? WARM_UP_SECONDS : options.seconds / TURNS;
      // Every other turn the other way round, so that neither of two neighbours always comes first.
      for (const { processes, load, service, source } of turn % 2 === 0 ? stations : stations.toReversed()) {
        const plan = { ...planFor(source, seconds, service, postgres), warmUpMs: TURN_WARM_UP_MS };
        const one = await child.ask<Measured>(plan);
        const key = keyOf(processes, load);
        // The first turn is not kept: it is there for the compilers of all processes.
        if (turn > 0) measured.set(key, [...(measured.get(key) ?? []), one]);
        console.error(`round ${round} turn ${turn}  ${key.padEnd(24)} ${figure(one.perSecond).padStart(8)}/s`);
      }
    }
    results.push(measured);
  }
  return reportOf(results, loads, tools);
}
