import { type Child, startChild } from "./child.ts";
import type { EchoAddresses } from "./echo-process.ts";
import type { LoadPlan, Measured, Source } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import { type BenchService, planFor, seedWorkspace, startService } from "./service.ts";
import { toolsText } from "./tools.ts";

/** What a part of the benchmark came to. */
export interface PartReport {
  readonly text: string;
  readonly checks: readonly Check[];
}

const AGENTS = 100;
const CALLERS = [1, 32, 128];
/** Callers that share one connection, next to as many that have one each: their number alone can mean either. */
const SHARING = 32;
/** Streams, and calls in flight on each. The callers of one runtime share a stream; these are several runtimes. */
const MANY_STREAMS = { streams: 8, inFlight: 64 };
const STREAMS = [...CALLERS.map((inFlight) => ({ streams: 1, inFlight })), MANY_STREAMS];
/** Rows of one statement of the bare insert: past this an insert no longer gains from size. */
const INSERT_ROWS = 256;
/** Seconds of each load before the first round that counts. */
export const WARM_UP_SECONDS = 1;

/** A measurement of every round; neighbours are compared, so that both see the machine in the same minute. */
interface Station {
  readonly key: string;
  readonly source: LoadPlan["source"];
}

interface Row {
  readonly name: string;
  readonly key: string;
  readonly baseline: string;
}

type Results = ReadonlyMap<string, Measured[]>;

function stationsOf({ grpc, rest, workspace }: BenchService, echo: EchoAddresses): Station[] {
  const { databaseUrl } = workspace;
  const stations: Station[] = [];
  const addUnary = (name: string, callers: number, isShared: boolean): void => {
    const bare: Source = { kind: "unary", target: { ...grpc, address: echo.grpc }, callers, isShared };
    stations.push({ key: `unary ${name}`, source: { ...bare, target: grpc, databaseUrl } });
    stations.push({ key: `echo ${name}`, source: bare });
  };
  const addStream = ({ streams, inFlight }: typeof MANY_STREAMS): void => {
    const name = `${streams}x${inFlight}`;
    stations.push({ key: `stream ${name}`, source: { kind: "stream", targets: [grpc], streams, inFlight } });
    stations.push({ key: `insert ${name}`, source: { kind: "insert", databaseUrl, rows: INSERT_ROWS } });
  };
  const addRest = (callers: number): void => {
    const source: Source = { kind: "rest", target: rest, callers };
    stations.push({ key: `rest ${callers}`, source });
    stations.push({ key: `http ${callers}`, source: { ...source, target: { ...rest, address: echo.http } } });
  };
  addUnary("shared", SHARING, true);
  for (const callers of CALLERS) {
    if (callers === 1) stations.push({ key: "commit", source: { kind: "insert", databaseUrl, rows: 1 } });
    addUnary(String(callers), callers, false);
    addRest(callers);
    addStream({ streams: 1, inFlight: callers });
  }
  addStream(MANY_STREAMS);
  return stations;
}

const ROWS: readonly Row[] = [
  ...CALLERS.map((n) => ({ name: `gRPC unary, ${n} callers`, key: `unary ${n}`, baseline: `echo ${n}` })),
  { name: `gRPC unary, ${SHARING} callers on one connection`, key: "unary shared", baseline: "echo shared" },
  ...STREAMS.map(({ streams, inFlight }) => ({
    name: `InterceptStream, ${streams} x ${inFlight} in flight`,
    key: `stream ${streams}x${inFlight}`,
    baseline: `insert ${streams}x${inFlight}`,
  })),
  ...CALLERS.map((n) => ({ name: `REST, ${n} callers`, key: `rest ${n}`, baseline: `http ${n}` })),
];

const BASELINES: Readonly<Record<string, string>> = { unary: "bare echo", stream: "bare insert", rest: "bare http" };

const ofKey = (results: Results, key: string): readonly Measured[] => results.get(key) ?? [];

function mid(results: Results, key: string, read: (measured: Measured) => number | undefined): number {
  return median(ofKey(results, key).map((measured) => read(measured) ?? Number.NaN));
}

/** The ratio that each round gave. */
function ratios(results: Results, key: string, baseline: string, read: (measured: Measured) => number): number[] {
  const others = ofKey(results, baseline);
  return ofKey(results, key).map((measured, round) => read(measured) / read(others[round] as Measured));
}

const perSecond = (measured: Measured): number => measured.perSecond;
const p50 = (measured: Measured): number => measured.p50;

function cellsOf(results: Results, { name, key, baseline }: Row): string[] {
  return [
    name,
    figure(mid(results, key, perSecond)),
    figure(mid(results, key, p50)),
    figure(mid(results, key, ({ p99 }) => p99)),
    figure(mid(results, key, ({ serviceCpu }) => serviceCpu)),
    figure(mid(results, key, ({ databaseCpu }) => databaseCpu)),
    figure(mid(results, key, ({ loadCpu }) => loadCpu)),
    BASELINES[key.split(" ")[0] as string] as string,
    figure(mid(results, baseline, perSecond)),
    figure(median(ratios(results, key, baseline, perSecond))),
    rangeOf(ratios(results, key, baseline, perSecond)),
  ];
}

const HEADINGS = [
  "load",
  "decisions/s",
  "p50 ms",
  "p99 ms",
  "service us",
  "database us",
  "load us",
  "baseline",
  "baseline/s",
  "ratio",
  "of all rounds",
];

function checksOf(results: Results): Check[] {
  const unary = ratios(results, "unary 32", "echo 32", perSecond);
  const stream = ratios(results, "stream 8x64", "insert 8x64", perSecond);
  return [
    { name: "gRPC unary at 32 callers / bare echo", figures: unary, bound: { atLeast: 0.55 }, unit: "x" },
    { name: "InterceptStream 8 x 64 / bare insert", figures: stream, bound: { atLeast: 0.3 }, unit: "x" },
  ];
}

/** Throughput and latency of every wire, next to what the parts below could do at most. */
export async function measureThroughput(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const workspace = await seedWorkspace(postgres, "throughput", {
    agents: AGENTS,
    otherMandates: 0,
    decisions: 10_000,
  });
  const service = await startService(workspace, cleanup);
  const echo = startChild("echo-process.ts");
  cleanup.defer(() => echo.kill());
  const stations = stationsOf(service, await echo.ask<EchoAddresses>({}));
  const results = new Map<string, Measured[]>(stations.map(({ key }) => [key, []]));
  for (let round = 0; round <= options.rounds; round++) {
    // The first round is not kept: it is there for the compilers of all processes.
    const seconds = round === 0 ? WARM_UP_SECONDS : options.seconds;
    for (const { key, source } of stations) {
      const measured = await load.ask<Measured>(planFor(source, seconds, service, postgres));
      if (round > 0) results.get(key)?.push(measured);
      console.error(`round ${round}  ${key.padEnd(12)} ${figure(measured.perSecond).padStart(8)}/s`);
    }
  }
  await service.server.stop();
  const commit = `one bare single-row commit: p50 ${figure(mid(results, "commit", p50))} ms`;
  const table = tableFrom(
    HEADINGS,
    ROWS.map((row) => cellsOf(results, row)),
  );
  return { text: `${toolsText()}\n${table}\n${commit}`, checks: checksOf(results) };
}
