import type { Child } from "./child.ts";
import type { Measured, Source, Target, ToolSource } from "./load/plan.ts";
import { findTools, type Tools, toolsText, withTools } from "./load/tools.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import { addWorkspace, type BenchService, type BenchWorkspace, planFor, startService } from "./service.ts";
import { type PartReport, WARM_UP_SECONDS } from "./throughput.ts";

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

/** A database with all workspaces and a service of so many processes on it, for each number of processes. */
async function startAll(
  loads: readonly Load[],
  postgres: BenchPostgres,
  cleanup: AsyncDisposableStack,
): Promise<Station[]> {
  const services: { readonly processes: number; readonly service: BenchService; readonly seeded: BenchWorkspace[] }[] =
    [];
  for (const processes of PROCESSES) {
    const databaseUrl = await postgres.createDatabase(`workers_${processes}`);
    const seeded: BenchWorkspace[] = [];
    for (let index = 0; index < Math.max(...loads.map(({ workspaces }) => workspaces)); index++) {
      seeded.push(await addWorkspace(databaseUrl, { workspaceId: `bench-${index}`, ...SIZE }));
    }
    const env = { ACP_WORKERS: String(processes), ACP_LOG_LEVEL: "warn" };
    services.push({ processes, service: await startService(seeded[0] as BenchWorkspace, cleanup, env), seeded });
  }
  // Neighbours are compared, so that both see the machine in the same seconds.
  return loads.flatMap((load) =>
    services.map(({ processes, service, seeded }) => {
      const source = load.sourceOn(service.grpc, seeded.slice(0, load.workspaces), service.workspace.databaseUrl);
      return { processes, load, service, source };
    }),
  );
}

const keyOf = (processes: number, { name }: Load): string => `${processes} / ${name}`;

type Results = ReadonlyMap<string, Measured[]>;

function ratios(results: Results, load: Load): number[] {
  const [one, several] = PROCESSES.map((processes) => results.get(keyOf(processes, load)) ?? []);
  return (several ?? []).map(({ perSecond }, turn) => perSecond / (one?.[turn]?.perSecond ?? Number.NaN));
}

function reportOf(results: Results, loads: readonly Load[], tools: Tools): PartReport {
  const rows = loads.flatMap((load) =>
    PROCESSES.map((processes) => {
      const all = results.get(keyOf(processes, load)) ?? [];
      const mid = (read: (measured: Measured) => number): string => figure(median(all.map(read)));
      const rate = ({ perSecond }: Measured): number => perSecond;
      return [keyOf(processes, load), mid(rate), mid(({ p50 }) => p50), mid(({ p99 }) => p99), rangeOf(all.map(rate))];
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

/** What a second process brings: on one workspace, whose log both append to, and on several, which are independent. */
export async function measureWorkers(
  options: BenchOptions,
  postgres: BenchPostgres,
  child: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const tools = findTools(options.ownLoad);
  const loads = loadsWith(tools);
  const stations = await startAll(loads, postgres, cleanup);
  const results = new Map<string, Measured[]>();
  for (let turn = 0; turn <= options.rounds * TURNS; turn++) {
    const seconds = turn === 0 ? WARM_UP_SECONDS : options.seconds / TURNS;
    // Every other turn the other way round, so that neither of two neighbours always comes first.
    for (const { processes, load, service, source } of turn % 2 === 0 ? stations : stations.toReversed()) {
      const plan = { ...planFor(source, seconds, service, postgres), warmUpMs: TURN_WARM_UP_MS };
      const measured = await child.ask<Measured>(plan);
      const key = keyOf(processes, load);
      // The first turn is not kept: it is there for the compilers of all processes.
      if (turn > 0) results.set(key, [...(results.get(key) ?? []), measured]);
      console.error(`turn ${turn}  ${key.padEnd(24)} ${figure(measured.perSecond).padStart(8)}/s`);
    }
  }
  return reportOf(results, loads, tools);
}
