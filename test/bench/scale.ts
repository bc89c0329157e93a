import type { Child } from "./child.ts";
import { type ColdStart, coldStart } from "./cold-start.ts";
import type { Measured, Source } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, tableFrom } from "./report.ts";
import type { Seed } from "./seed-process.ts";
import { type BenchService, type BenchWorkspace, planFor, seedWorkspace } from "./service.ts";
import { type PartReport, WARM_UP_SECONDS } from "./throughput.ts";

const AGENTS = 10;
/** Cold starts of the workspace with the long log; the others are started once. */
const COLD_STARTS = 3;
/** Actions a second that every machine reaches: what the warm-up reckons with so that each agent has acted once. */
const SLOWEST_PER_SECOND = 4_000;
/** Most that a decision may cost more than in the small workspace. */
const MOST_DEARER = 1.2;
const MOST_COLD_MS = 3_000;

/** A workspace that has grown in one direction; the first has in none. */
interface Variant {
  readonly name: string;
  readonly size: Omit<Seed, "databaseUrl">;
}

interface Running {
  readonly variant: Variant;
  readonly service: BenchService;
  readonly starts: readonly ColdStart[];
  readonly measured: Measured[];
}

function variantsOf({ scale }: BenchOptions): [Variant, ...Variant[]] {
  const small = { agents: AGENTS, otherMandates: 0, decisions: 0 };
  const number = (value: number): string => value.toLocaleString("en");
  return [
    { name: `10 mandates, ${AGENTS} agents, empty log`, size: small },
    { name: `${number(scale.mandates)} mandates on other tools`, size: { ...small, otherMandates: scale.mandates } },
    { name: `${number(scale.agents)} agents`, size: { ...small, agents: scale.agents } },
    { name: `${number(scale.entries)} entries in the log`, size: { ...small, decisions: scale.entries } },
  ];
}

/** What is compared: processor time, which the machine's other work disturbs least; else the time that a decision takes. */
function costOf({ serviceCpu, perSecond }: Measured): number {
  return serviceCpu ?? 1e6 / perSecond;
}

/** Starts the service again and again, each time killed without a chance to clean up; the last one stays. */
async function startCold(
  workspace: BenchWorkspace,
  times: number,
  cleanup: AsyncDisposableStack,
): Promise<readonly ColdStart[]> {
  const starts: ColdStart[] = [];
  for (let start = 1; start <= times; start++) {
    const cold = await coldStart(workspace, cleanup);
    starts.push(cold);
    const { listeningMs, firstDecisionMs, inWindow } = cold;
    console.error(
      `cold start ${start}  listening ${figure(listeningMs)} ms, first decision ${figure(firstDecisionMs)} ms after it, ` +
        `${figure(inWindow)} actions in the window`,
    );
    if (start < times) await cold.service.server.kill();
  }
  return starts;
}

/** The stations of a round, begun at another one each time, so that none always comes first. */
function turned<T>(items: readonly T[], by: number): T[] {
  return items.map((_, index) => items[(index + by) % items.length] as T);
}

/** Long enough for every agent to act: its first action builds what the later ones use. */
function warmUpSeconds({ size }: Variant): number {
  return Math.max(WARM_UP_SECONDS, Math.ceil(size.agents / SLOWEST_PER_SECOND));
}

async function measureRounds(options: BenchOptions, postgres: BenchPostgres, load: Child, all: readonly Running[]) {
  for (let round = 0; round <= options.rounds; round++) {
    for (const { variant, service, measured } of turned(all, round)) {
      const seconds = round === 0 ? warmUpSeconds(variant) : options.seconds;
      const source: Source = { kind: "stream", targets: [service.grpc], streams: 8, inFlight: 64 };
      const result = await load.ask<Measured>(planFor(source, seconds, service, postgres));
      if (round > 0) measured.push(result);
      console.error(`round ${round}  ${variant.name.padEnd(40)} ${figure(costOf(result))} us`);
    }
  }
}

function ratiosTo(small: Running, { measured }: Running, read: (measured: Measured) => number): number[] {
  return measured.map((each, round) => read(each) / read(small.measured[round] as Measured));
}

const HEADINGS = [
  "workspace",
  "decisions/s",
  "service us",
  "database us",
  "speed ratio",
  "cost ratio",
  "cold start ms",
];

function tableOf(all: readonly Running[], small: Running): string {
  const rows = all.map((running) => {
    const { variant, measured, starts } = running;
    const firstDecision = figure(median(starts.map(({ firstDecisionMs }) => firstDecisionMs)));
    const mid = (read: (each: Measured) => number | undefined): string =>
      figure(median(measured.map((each) => read(each) ?? Number.NaN)));
    const columns = [
      mid(({ perSecond }) => perSecond),
      mid(({ serviceCpu }) => serviceCpu),
      mid(({ databaseCpu }) => databaseCpu),
    ];
    const ratios = [
      figure(median(ratiosTo(small, running, ({ perSecond }) => perSecond))),
      figure(median(ratiosTo(small, running, costOf))),
    ];
    return [variant.name, ...columns, ...ratios, firstDecision];
  });
  return tableFrom(HEADINGS, rows);
}

function coldText(starts: readonly ColdStart[]): string {
  const mid = (read: (start: ColdStart) => number): string => figure(median(starts.map(read)));
  return (
    `cold start with the longest log, after kill -9: listening ${mid(({ listeningMs }) => listeningMs)} ms after the start ` +
    `of the process, first decision ${mid(({ firstDecisionMs }) => firstDecisionMs)} ms after that; ` +
    `${starts.map(({ inWindow }) => figure(inWindow)).join(", ")} actions in the window of 60 s`
  );
}

/** Whether deciding costs the same in a workspace that has grown, and how long a start on a long log takes. */
export async function measureScale(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const variants = variantsOf(options);
  const all: Running[] = [];
  for (const [index, variant] of variants.entries()) {
    console.error(`preparing  ${variant.name}`);
    const workspace = await seedWorkspace(postgres, `scale_${index}`, variant.size);
    const starts = await startCold(workspace, variant.size.decisions > 0 ? COLD_STARTS : 1, cleanup);
    const { service } = starts.at(-1) as ColdStart;
    all.push({ variant, service, starts, measured: [] });
  }
  await measureRounds(options, postgres, load, all);
  const small = all[0] as Running;
  const checks = all.slice(1).map(
    (running): Check => ({
      name: `cost of a decision with ${running.variant.name}`,
      figures: ratiosTo(small, running, costOf),
      bound: { atMost: MOST_DEARER },
      unit: "x",
    }),
  );
  const { starts } = all.at(-1) as Running;
  const firstDecisions = starts.map(({ firstDecisionMs }) => firstDecisionMs);
  const cold = {
    name: "first decision of a cold start",
    figures: firstDecisions,
    bound: { atMost: MOST_COLD_MS },
    unit: "ms",
  };
  return { text: `${tableOf(all, small)}\n${coldText(starts)}`, checks: [...checks, cold] };
}
