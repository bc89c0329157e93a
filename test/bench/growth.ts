import type { Child } from "./child.ts";
import { openStreams } from "./clients.ts";
import { type ColdStart, coldStart } from "./cold-start.ts";
import { memoryMib } from "./cpu.ts";
import type { Measured, Source, Target } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import type { Seed } from "./seed-process.ts";
import { addWorkspace, type BenchService, type BenchWorkspace, planFor } from "./service.ts";
import { type PartReport, WARM_UP_SECONDS } from "./throughput.ts";
import type { WrittenMandate } from "./workload.ts";

const MANDATES = 10;
const AGENTS = 10;
const FEW_ENTRIES = 10_000;
const FEW_ACTIONS = 100;
const DAY_MS = 86_400_000;
/** Actions a second that every machine reaches: what the warm-up reckons with so that each agent has acted once. */
const SLOWEST_PER_SECOND = 4_000;
/** Most that a decision may cost the service more than in the small workspace. */
const MOST_DEARER = 1.2;
const COLD_STARTS = 3;
const MOST_COLD_MS = 3_000;
/** MiB that the process may have more with the large window: what a workspace keeps of its windows, and as much again. */
const MOST_MORE_MIB = 50;
/** MiB of heap, so that what differs is what is kept and not what was not collected yet; a million times are 8 MiB. */
const SMALL_HEAP = { NODE_OPTIONS: "--max-old-space-size=128 --max-semi-space-size=4" };

/** A workspace of one size, and the load on it. */
interface Side {
  /** Size, as it is printed. */
  readonly size: number;
  readonly seed: Omit<Seed, "databaseUrl" | "workspaceId">;
  readonly source: (target: Target) => Source;
  /** Like workspaces that take the load in turn, round by round, so that no log is much longer than it was made. Default 1. */
  readonly workspaces?: number;
  /** Other streams, open beside the load. Default 0. */
  readonly openStreams?: number;
}

/** Two sides that differ in one size alone. */
interface Pair {
  /** What differs. */
  readonly name: string;
  readonly small: Side;
  readonly large: Side;
  readonly env?: Readonly<Record<string, string>>;
}

/** A side whose service runs. */
interface Running {
  readonly side: Side;
  readonly service: BenchService;
  readonly targets: readonly Target[];
  readonly starts: readonly ColdStart[];
  readonly measured: Measured[];
  /** MiB of the service after the last round. */
  memoryMib: number;
}

/** A pair after its rounds. */
interface Grown {
  readonly pair: Pair;
  readonly small: Running;
  readonly large: Running;
}

const manyStreams = (target: Target): Source => ({ kind: "stream", targets: [target], streams: 8, inFlight: 64 });
const unaryCalls = (target: Target): Source => ({ kind: "unary", target, callers: 32 });

/** Limits over a day that count what was blocked. The load, which is allowed, meets them and leaves their windows as they are. */
const LIMITS_OF_A_DAY: WrittenMandate = {
  name: "refusals of a day",
  mode: "enforce",
  rules: ["SCOPE_WORKSPACE", "SCOPE_AGENT"].map((scope) => ({
    type: "RULE_TYPE_SEQUENCE",
    decision: "DECISION_BLOCK",
    conditions: {
      mode: "SEQUENCE_MODE_VELOCITY",
      match_action_types: ["payment.*"],
      count_decisions: ["DECISION_BLOCK"],
      scope,
      max_count: "1000000000",
      window_seconds: String(DAY_MS / 1_000),
    },
  })),
};

function pairsFrom({ growth, rounds }: BenchOptions): readonly Pair[] {
  const seed = { agents: AGENTS, otherMandates: 0, decisions: 0 };
  const withMandates = (size: number): Side => {
    return { size, seed: { ...seed, otherMandates: Math.max(0, size - MANDATES) }, source: manyStreams };
  };
  const withAgents = (size: number): Side => ({ size, seed: { ...seed, agents: size }, source: manyStreams });
  const withEntries = (size: number, workspaces: number): Side => {
    const past = { entries: size, overMs: 30 * DAY_MS, decision: "allow" } as const;
    return { size, seed: { ...seed, past }, source: manyStreams, workspaces };
  };
  const withOpen = (size: number): Side => ({ size, seed, source: manyStreams, openStreams: size });
  const overStreams = (streams: number): Side => {
    const inFlight = Math.ceil(growth.streams / streams);
    return { size: streams, seed, source: (target) => ({ kind: "stream", targets: [target], streams, inFlight }) };
  };
  const withActions = (size: number): Side => {
    const past = { entries: size, overMs: DAY_MS, decision: "block" } as const;
    return { size, seed: { ...seed, past, moreMandates: [LIMITS_OF_A_DAY] }, source: unaryCalls };
  };
  return [
    { name: "mandates", small: withMandates(MANDATES), large: withMandates(growth.mandates) },
    { name: "agents", small: withAgents(AGENTS), large: withAgents(growth.agents) },
    { name: "entries", small: withEntries(FEW_ENTRIES, rounds + 1), large: withEntries(growth.entries, 1) },
    { name: "open streams, quiet beside the load", small: withOpen(1), large: withOpen(growth.streams) },
    { name: "open streams, which share the load", small: overStreams(1), large: overStreams(growth.streams) },
    {
      name: "actions in a window",
      small: withActions(FEW_ACTIONS),
      large: withActions(growth.actions),
      env: SMALL_HEAP,
    },
  ];
}

/** Processor time of the service for a decision; else the time that one takes, which the machine's other work disturbs more. */
const serviceCost = ({ serviceCpu, perSecond }: Measured): number => serviceCpu ?? 1e6 / perSecond;
const databaseCost = ({ databaseCpu }: Measured): number => databaseCpu ?? Number.NaN;

async function seedAll(postgres: BenchPostgres, name: string, side: Side): Promise<readonly BenchWorkspace[]> {
  const databaseUrl = await postgres.createDatabase(name);
  const workspaces: BenchWorkspace[] = [];
  for (let index = 0; index < (side.workspaces ?? 1); index++) {
    workspaces.push(await addWorkspace(databaseUrl, { ...side.seed, workspaceId: `bench-${index}` }));
  }
  return workspaces;
}

/** Starts the service again and again, each time killed without a chance to clean up; the last one stays. */
async function startCold(
  workspace: BenchWorkspace,
  times: number,
  cleanup: AsyncDisposableStack,
  env: Pair["env"],
): Promise<readonly ColdStart[]> {
  const starts: ColdStart[] = [];
  for (let start = 1; start <= times; start++) {
    const cold = await coldStart(workspace, cleanup, env);
    starts.push(cold);
    const { firstDecisionMs, inWindow } = cold;
    console.error(`start ${start}  first decision ${figure(firstDecisionMs)} ms, ${figure(inWindow)} in a window`);
    if (start < times) await cold.service.server.kill();
  }
  return starts;
}

async function prepare(
  postgres: BenchPostgres,
  pair: Pair,
  side: Side,
  cleanup: AsyncDisposableStack,
): Promise<Running> {
  const startedAt = performance.now();
  console.error(`preparing  ${side.size.toLocaleString("en")} ${pair.name}`);
  const name = `growth_${pair.name}_${side === pair.small ? "small" : "large"}`.replaceAll(/\W/g, "_");
  const workspaces = await seedAll(postgres, name, side);
  console.error(`prepared after ${figure((performance.now() - startedAt) / 1_000)} s`);
  const isTimed = side === pair.large && side.seed.past !== undefined;
  const starts = await startCold(workspaces[0] as BenchWorkspace, isTimed ? COLD_STARTS : 1, cleanup, pair.env);
  const { service } = starts.at(-1) as ColdStart;
  const targets = workspaces.map(({ apiKey, agentIds }): Target => ({ ...service.grpc, apiKey, agentIds }));
  return { side, service, targets, starts, measured: [], memoryMib: Number.NaN };
}

/** Loads one side for its turn of a round. */
async function measureTurn(
  { side, service, targets }: Running,
  round: number,
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
) {
  const target = targets[round % targets.length] as Target;
  using _open = await openStreams(target, side.openStreams ?? 0);
  // Long enough for every agent to act: its first action builds what the later ones use.
  const warmUp = Math.max(WARM_UP_SECONDS, Math.ceil(side.seed.agents / SLOWEST_PER_SECOND));
  const seconds = round === 0 ? warmUp : options.seconds;
  return load.ask<Measured>(planFor(side.source(target), seconds, service, postgres));
}

async function measurePair(pair: Pair, options: BenchOptions, postgres: BenchPostgres, load: Child): Promise<Grown> {
  await using cleanup = new AsyncDisposableStack();
  const small = await prepare(postgres, pair, pair.small, cleanup);
  const large = await prepare(postgres, pair, pair.large, cleanup);
  for (let round = 0; round <= options.rounds; round++) {
    for (const running of round % 2 === 0 ? [small, large] : [large, small]) {
      const measured = await measureTurn(running, round, options, postgres, load);
      if (round > 0) running.measured.push(measured);
      const costs = `service ${figure(serviceCost(measured))} us, database ${figure(databaseCost(measured))} us`;
      console.error(
        `round ${round}  ${running.side.size} ${pair.name}: ${costs}, ${figure(measured.perSecond)} a second`,
      );
    }
  }
  for (const running of [small, large]) running.memoryMib = memoryMib(running.service.server.pid);
  return { pair, small, large };
}

function ratiosOf({ small, large }: Grown, costOf: (measured: Measured) => number): number[] {
  return large.measured.map((each, round) => costOf(each) / costOf(small.measured[round] as Measured));
}

function rowsOf(grown: Grown): string[][] {
  const { pair, small, large } = grown;
  const sizes = [small, large].map(({ side }) => side.size.toLocaleString("en")).join(" to ");
  const rowOf = (process: string, costOf: (measured: Measured) => number): string[] => {
    const ratios = ratiosOf(grown, costOf);
    const costs = [small, large].map(({ measured }) => figure(median(measured.map(costOf))));
    const verdict = median(ratios) <= MOST_DEARER ? "reached" : "missed";
    return [`${sizes} ${pair.name}, ${process}`, ...costs, figure(median(ratios)), rangeOf(ratios), verdict];
  };
  return [rowOf("service", serviceCost), rowOf("database", databaseCost)];
}

function checksOf(grown: Grown): Check[] {
  const { pair, small, large } = grown;
  const size = large.side.size.toLocaleString("en");
  const cost: Check = {
    name: `cost of a decision with ${size} ${pair.name}`,
    figures: ratiosOf(grown, serviceCost),
    bound: { atMost: MOST_DEARER },
    unit: "x",
  };
  if (large.side.seed.past === undefined) return [cost];
  const cold: Check = {
    name: `first decision of a cold start with ${size} ${pair.name}`,
    figures: large.starts.map(({ firstDecisionMs }) => firstDecisionMs),
    bound: { atMost: MOST_COLD_MS },
    unit: "ms",
  };
  if (pair.env === undefined) return [cost, cold];
  const memory: Check = {
    name: `memory that ${size} ${pair.name} take`,
    figures: [large.memoryMib - small.memoryMib],
    bound: { atMost: MOST_MORE_MIB },
    unit: "MiB",
  };
  return [cost, cold, memory];
}

const HEADINGS = [
  "processor time of a decision",
  "small us",
  "large us",
  "ratio",
  "of all rounds",
  `aim <= ${MOST_DEARER}`,
];

/** Whether deciding costs the same in a workspace that has grown in one direction, and how soon a service on it decides. */
export async function measureGrowth(options: BenchOptions, postgres: BenchPostgres, load: Child): Promise<PartReport> {
  const all: Grown[] = [];
  for (const pair of pairsFrom(options)) all.push(await measurePair(pair, options, postgres, load));
  return { text: tableFrom(HEADINGS, all.flatMap(rowsOf)), checks: all.flatMap(checksOf) };
}
