/* Decisions a second behind PgBouncer, which gives out connections for one transaction, against those of a direct service. */
import { Client } from "pg";
import { LOGIN_LIMITS, startPooler } from "../support/pooler.ts";
import { startChild } from "./child.ts";
import type { Measured, Source } from "./load.ts";
import { startBenchPostgres } from "./postgres.ts";
import { figure, median, rangeOf, tableFrom } from "./report.ts";
import { type BenchService, planFor, seedWorkspace, startService } from "./service.ts";

const SECONDS = 3;
const ROUNDS = 5;
/** Connections of PgBouncer to the database: as many as the pool of the service. */
const CONNECTIONS = 10;
const LOADS: readonly { name: string; sourceOf: (service: BenchService) => Source }[] = [
  { name: "gRPC unary, 1 caller", sourceOf: ({ grpc }) => ({ kind: "unary", target: grpc, callers: 1 }) },
  { name: "gRPC unary, 32 callers", sourceOf: ({ grpc }) => ({ kind: "unary", target: grpc, callers: 32 }) },
  {
    name: "InterceptStream 8 x 64",
    sourceOf: ({ grpc }) => ({ kind: "stream", targets: [grpc], streams: 8, inFlight: 64 }),
  },
];

async function giveLimits(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (const limit of LOGIN_LIMITS)
    await client.query(`alter role ${client.escapeIdentifier(client.user ?? "")} set ${limit}`);
  await client.end();
}

await using cleanup = new AsyncDisposableStack();
const postgres = await startBenchPostgres(cleanup);
const workspace = await seedWorkspace(postgres, "pooler", { agents: 100, otherMandates: 0, decisions: 1_000 });
await giveLimits(workspace.databaseUrl);
const pooler = await startPooler(workspace.databaseUrl, CONNECTIONS);
cleanup.defer(() => pooler.stop());
const env = { ACP_LOG_LEVEL: "warn" };
const direct = await startService(workspace, cleanup, env);
const behind = await startService({ ...workspace, databaseUrl: pooler.url }, cleanup, {
  ...env,
  ACP_DATABASE_POOLER: "transaction",
  ACP_DATABASE_DIRECT_URL: workspace.databaseUrl,
});
const load = startChild("load-process.ts");
cleanup.defer(() => load.end());
const rows: string[][] = [];
for (const { name, sourceOf } of LOADS) {
  const rateOf = async (service: BenchService): Promise<number> =>
    (await load.ask<Measured>(planFor(sourceOf(service), SECONDS, service, postgres))).perSecond;
  const rates: Record<"direct" | "behind", number[]> = { direct: [], behind: [] };
  for (let round = 1; round <= ROUNDS; round++) {
    rates.direct.push(await rateOf(direct));
    rates.behind.push(await rateOf(behind));
  }
  const ratios = rates.behind.map((rate, round) => rate / (rates.direct[round] ?? Number.NaN));
  const cells = [rates.direct, rates.behind, ratios].map((each) => figure(median(each)));
  rows.push([name, ...cells, rangeOf(ratios)]);
}
console.log(tableFrom(["decisions a second", "direct", "behind PgBouncer", "ratio", "of all rounds"], rows));
