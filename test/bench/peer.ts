import { type Cerbos, startCerbos } from "./cerbos.ts";
import type { Child } from "./child.ts";
import { type Measured, quantile, REST_PATH, type Source } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import { pacedCommits } from "./paced-commits.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, median, rangeOf, tableFrom } from "./report.ts";
import { type BenchService, planFor, seedWorkspace, startService } from "./service.ts";
import type { PartReport } from "./throughput.ts";
import {
  findTools,
  postBodies,
  type Repeated,
  type Replies,
  repeatedAction,
  repeatRequest,
  runH2load,
  runWrk,
} from "./tools.ts";
import { jsonOf, requestsOf } from "./workload.ts";

const AGENTS = 100;
const CALLERS = 32;
/** Calls a second at which times are measured, with the connections that share them. */
const RATES = [
  { rate: 200, connections: 8 },
  { rate: 1_000, connections: 20 },
  { rate: 3_000, connections: 30 },
] as const;
/** Median of p99 divided by p50 up to which the tail of a bare commit is calm, and the aim of the service then. */
const CALM_COMMIT = 3;
const TAIL_AIM = 4;

/** A load that is measured in every round, in turn with the others: decisions a second. */
interface Station {
  readonly key: string;
  readonly run: (ms: number) => Promise<number>;
}

/** A load at a fixed rate. */
interface Paced {
  readonly name: string;
  readonly run: (rate: number, connections: number, ms: number) => Promise<Replies>;
}

/** A ratio of two loads, with its aim. */
interface Ratio {
  readonly name: string;
  readonly of: string;
  readonly to: string;
  readonly aim?: number;
}

const RATIOS: readonly Ratio[] = [
  { name: "REST / Cerbos over REST", of: "rest", to: "cerbos rest" },
  { name: "gRPC unary / Cerbos over gRPC", of: "unary", to: "cerbos grpc", aim: 1.1 },
  { name: "gRPC unary / REST", of: "unary", to: "rest", aim: 1 },
  { name: "InterceptStream 8 x 64 / Cerbos over gRPC", of: "stream", to: "cerbos grpc", aim: 2.5 },
];

const grpcSource = ({ grpc, workspace }: BenchService) => {
  return { kind: "unary", target: grpc, callers: CALLERS, databaseUrl: workspace.databaseUrl } as const;
};

function stationsOf(service: BenchService, cerbos: Cerbos, postgres: BenchPostgres, load: Child): readonly Station[] {
  const { grpc, rest } = service;
  const stream: Source = { kind: "stream", targets: [grpc], streams: 8, inFlight: 64 };
  const ask = async (ms: number) =>
    (await load.ask<Measured>(planFor(stream, ms / 1_000, service, postgres))).perSecond;
  return [
    { key: "rest", run: async (ms) => (await runWrk({ kind: "rest", target: rest, callers: CALLERS }, ms)).perSecond },
    { key: "cerbos rest", run: async (ms) => (await postBodies(cerbos.restChecks(CALLERS), ms)).perSecond },
    { key: "unary", run: async (ms) => (await runH2load(grpcSource(service), ms)).perSecond },
    { key: "cerbos grpc", run: async (ms) => (await repeatRequest(cerbos.grpcCheck(CALLERS, 1), ms)).perSecond },
    { key: "stream", run: ask },
  ];
}

async function pacedOf(service: BenchService, cerbos: Cerbos): Promise<readonly Paced[]> {
  const { rest, workspace } = service;
  const unary = await repeatedAction(grpcSource(service));
  const restAction: Omit<Repeated, "connections"> = {
    url: `http://${rest.address}${REST_PATH}`,
    headers: ["content-type: application/json", `x-api-key: ${rest.apiKey}`],
    body: Buffer.from(jsonOf(requestsOf(rest.agentIds)[0] as ReturnType<typeof requestsOf>[number])),
    inFlight: 1,
    isHttp1: true,
  };
  const repeated = (at: (connections: number) => Repeated) => (rate: number, connections: number, ms: number) =>
    repeatRequest({ ...at(connections), rate: rate / connections }, ms);
  return [
    {
      name: "bare commit",
      run: (rate, connections, ms) => pacedCommits({ databaseUrl: workspace.databaseUrl, rate, connections }, ms),
    },
    { name: "REST", run: repeated((connections) => ({ ...restAction, connections })) },
    { name: "gRPC unary", run: repeated((connections) => ({ ...unary, connections, inFlight: 1 })) },
    { name: "Cerbos over REST", run: repeated((connections) => cerbos.restCheck(connections)) },
    { name: "Cerbos over gRPC", run: repeated((connections) => cerbos.grpcCheck(connections, 1)) },
  ];
}

const ratiosOf = ({ of, to }: Ratio, results: ReadonlyMap<string, readonly number[]>): readonly number[] =>
  (results.get(of) ?? []).map((each, round) => each / (results.get(to)?.[round] ?? Number.NaN));

function ratioTable(results: ReadonlyMap<string, readonly number[]>): string {
  const rows = RATIOS.map((ratio) => {
    const figures = ratiosOf(ratio, results);
    const { name, of, to, aim } = ratio;
    const reached = aim === undefined ? ["", ""] : [`>= ${aim}`, median(figures) >= aim ? "reached" : "missed"];
    const rates = [of, to].map((key) => figure(median(results.get(key) ?? [])));
    return [name, ...rates, figure(median(figures)), rangeOf(figures), ...reached];
  });
  return tableFrom(["decisions a second", "ours", "other", "ratio", "of all rounds", "aim", ""], rows);
}

type Tail = readonly [p50: number, p99: number, p999: number];

const tailOf = ({ sorted }: Replies): Tail => [quantile(sorted, 0.5), quantile(sorted, 0.99), quantile(sorted, 0.999)];

function tailRows(rate: number, tails: ReadonlyMap<string, readonly Tail[]>): string[][] {
  const ratioOf = (name: string) => median((tails.get(name) ?? []).map(([p50, p99]) => p99 / p50));
  const isCalm = ratioOf("bare commit") <= CALM_COMMIT;
  return [...tails].map(([name, all]) => {
    const figures = [0, 1, 2].map((column) => figure(median(all.map((tail) => tail[column] ?? Number.NaN))));
    const ratio = ratioOf(name);
    const isOurs = name === "REST" || name === "gRPC unary";
    const aim = isOurs && isCalm ? [`<= ${TAIL_AIM}`, ratio <= TAIL_AIM ? "reached" : "missed"] : ["", ""];
    return [`${name}, ${rate} a second`, ...figures, figure(ratio), ...aim];
  });
}

/** Measures decisions a second and times at fixed rates, in turns with Cerbos, which writes its decisions to a file. */
export async function measurePeer(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const { h2load, wrk } = findTools();
  if (!h2load || !wrk) throw new Error("the comparison needs h2load and wrk (Debian: nghttp2-client, wrk)");
  const cerbos = await startCerbos(cleanup);
  const workspace = await seedWorkspace(postgres, "peer", { agents: AGENTS, otherMandates: 0, decisions: 10_000 });
  const service = await startService(workspace, cleanup);
  const ms = Math.round(options.seconds * 1_000);
  const stations = stationsOf(service, cerbos, postgres, load);
  const results = new Map<string, number[]>(stations.map(({ key }) => [key, []]));
  for (const { run } of stations) await run(1_000);
  for (let round = 1; round <= options.rounds; round++) {
    for (const { key, run } of stations) {
      const perSecond = await run(ms);
      results.get(key)?.push(perSecond);
      console.error(`round ${round}  ${key.padEnd(12)} ${figure(perSecond).padStart(8)}/s`);
    }
  }
  const loads = await pacedOf(service, cerbos);
  const rows: string[][] = [];
  for (const { rate, connections } of RATES) {
    const tails = new Map<string, Tail[]>(loads.map(({ name }) => [name, []]));
    for (let round = 1; round <= options.rounds; round++) {
      for (const { name, run } of loads) tails.get(name)?.push(tailOf(await run(rate, connections, ms)));
    }
    rows.push(...tailRows(rate, tails));
    console.error(`${rate} a second: done`);
  }
  await service.server.stop();
  const times = tableFrom(["milliseconds at a fixed rate", "p50", "p99", "p99.9", "p99 / p50", "aim", ""], rows);
  const heading = `beside Cerbos ${cerbos.version} with ten rules, its decisions in a file; ${CALLERS} callers with a connection each`;
  return { text: `${heading}\n\n${ratioTable(results)}\n\n${times}`, checks: [] };
}
