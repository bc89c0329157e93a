/*
 * What the slowest calls wait for. Run with `node test/bench/tail.ts [calls a second] [seconds] [rest | grpc]`: h2load (Debian:
 * nghttp2-client) calls the service at a fixed rate, and `tail-probe.ts` in it notes when each call passes each stage.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { quantile, REST_PATH } from "./load.ts";
import { pacedCommits } from "./paced-commits.ts";
import { startBenchPostgres } from "./postgres.ts";
import { figure, median, tableFrom } from "./report.ts";
import { type BenchService, seedWorkspace, startService } from "./service.ts";
import type { Piece, Probed, ProbedCall } from "./tail-probe.ts";
import { type Repeated, type Replied, repeatedAction, repeatRequest } from "./tools.ts";
import { jsonOf, requestsOf } from "./workload.ts";

const RATE = Number(process.argv[2] ?? 1_000);
const SECONDS = Number(process.argv[3] ?? 15);
const WIRE = process.argv[4] ?? "rest";
const CONNECTIONS = Math.max(8, RATE / 100);
const WARM_UP_MS = 5_000;
/** Share of the calls that are called slow. */
const SLOW = 0.01;
const LOOK_MS = 50;
/** Milliseconds within which a wait counts as none. */
const SLIGHT_MS = 0.5;
const PROBE = join(import.meta.dirname, "tail-probe.ts");

/** A call as its caller saw it, with the times that the service noted. */
interface Traced extends ProbedCall {
  readonly sentAt: number;
  readonly repliedAt: number;
}

const STAGES: readonly { readonly name: string; readonly msOf: (call: Traced) => number }[] = [
  { name: "until the service reads it", msOf: (call) => call.receivedAt - call.sentAt },
  { name: "admitting", msOf: (call) => call.queuedAt - call.receivedAt },
  { name: "waiting for its batch", msOf: (call) => call.decidingAt - call.queuedAt },
  { name: "deciding its batch", msOf: (call) => call.decidedAt - call.decidingAt },
  { name: "the commit", msOf: (call) => call.appendedAt - call.decidedAt },
  { name: "until it is answered", msOf: (call) => call.settledAt - call.appendedAt },
  { name: "writing the reply", msOf: (call) => call.answeredAt - call.settledAt },
  { name: "until the caller reads it", msOf: (call) => call.repliedAt - call.answeredAt },
];

const tookMs = ({ sentAt, repliedAt }: Traced): number => repliedAt - sentAt;
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Milliseconds of a call that lie in pieces of time. */
function within({ sentAt, repliedAt }: Traced, pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, repliedAt) - Math.max(from, sentAt)), 0);
}

/** Pairs calls with what the service noted, in the order in which they were sent and read. */
function tracedFrom(each: readonly Replied[], calls: readonly ProbedCall[]): readonly Traced[] {
  const sent = each.toSorted((a, b) => a.sentAt - b.sentAt);
  const read = calls.toSorted((a, b) => a.receivedAt - b.receivedAt).slice(-sent.length);
  if (read.length < sent.length) throw new Error(`${sent.length} calls, of which the service noted ${read.length}`);
  return sent.map(({ sentAt, tookMs }, index) => {
    return { ...(read[index] as ProbedCall), sentAt, repliedAt: sentAt + tookMs };
  });
}

async function repeatedOf({ grpc, rest }: BenchService): Promise<Repeated> {
  const paced = { connections: CONNECTIONS, inFlight: 1, rate: RATE / CONNECTIONS };
  if (WIRE === "grpc") return { ...(await repeatedAction({ target: grpc, callers: CONNECTIONS })), ...paced };
  return {
    url: `http://${rest.address}${REST_PATH}`,
    headers: ["content-type: application/json", `x-api-key: ${rest.apiKey}`],
    body: Buffer.from(jsonOf(requestsOf(rest.agentIds)[0] as ReturnType<typeof requestsOf>[number])),
    isHttp1: true,
    ...paced,
  };
}

/** Notes when the database writes a checkpoint, until it is stopped. */
function watchCheckpoints(databaseUrl: string): { stop(): Promise<readonly Piece[]> } {
  const stopped = new AbortController();
  const pieces: Piece[] = [];
  const watch = async (): Promise<void> => {
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    let written: string | undefined;
    for (let lookedAt = Date.now(); !stopped.signal.aborted; lookedAt = Date.now()) {
      const { rows } = await client.query("select buffers_written::text as written from pg_stat_checkpointer");
      if (written !== undefined && rows[0].written !== written)
        pieces.push({ from: lookedAt - LOOK_MS, to: Date.now() });
      written = rows[0].written;
      await delay(LOOK_MS);
    }
    await client.end();
  };
  const watching = watch();
  return {
    async stop() {
      stopped.abort();
      await watching;
      return pieces;
    },
  };
}

/** Prints in which stages the slowest of the calls spend their time, and what lies in it. The calls MUST be in order of size. */
function printStages(calls: readonly Traced[], causes: Readonly<Record<string, (call: Traced) => number>>): void {
  const slow = calls.slice(Math.floor(calls.length * (1 - SLOW)));
  const usual = calls.slice(Math.floor(calls.length * 0.45), Math.ceil(calls.length * 0.55));
  const more = mean(slow.map(tookMs)) - mean(usual.map(tookMs));
  const stageRows = [...STAGES, { name: "all", msOf: tookMs }].map(({ name, msOf }) => {
    const [usually, slowly] = [mean(usual.map(msOf)), mean(slow.map(msOf))];
    return [name, figure(usually), figure(slowly), `${Math.round((100 * (slowly - usually)) / more)} %`];
  });
  const share = (some: readonly Traced[], msOf: (call: Traced) => number): string =>
    `${Math.round((100 * some.filter((call) => msOf(call) > SLIGHT_MS).length) / some.length)} %`;
  const causeRows = Object.entries(causes).map(([name, msOf]) => {
    return [name, share(calls, msOf), share(slow, msOf), figure(mean(slow.map(msOf)))];
  });
  const heading = `more than ${SLIGHT_MS} ms of the call are`;
  console.log(tableFrom(["mean milliseconds", "about the median", "slowest 1 %", "of the difference"], stageRows));
  console.log(`\n${tableFrom([heading, "of all calls", "of the slowest", "ms of these"], causeRows)}`);
  const sizes = [calls, slow].map((some) => figure(mean(some.map(({ batchSize }) => batchSize))));
  console.log(`\nactions of a batch: ${sizes[0]}, of the slowest ${sizes[1]}`);
}

await using cleanup = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "acp-tail-"));
cleanup.defer(() => rm(folder, { recursive: true, force: true }));
const socket = join(folder, "tail");
const postgres = await startBenchPostgres(cleanup);
const workspace = await seedWorkspace(postgres, "tail", { agents: 100, otherMandates: 0, decisions: 10_000 });
const service = await startService(workspace, cleanup, { NODE_OPTIONS: `--import=${PROBE}`, TAIL_SOCKET: socket });
const probed = async (): Promise<Probed> => (await json(connect(socket))) as Probed;

const repeated = await repeatedOf(service);
await repeatRequest(repeated, WARM_UP_MS);
await probed();
const checkpoints = watchCheckpoints(workspace.databaseUrl);
const { each, sorted } = await repeatRequest(repeated, SECONDS * 1_000);
const written = await checkpoints.stop();
const { calls, collections, turns } = await probed();
const commits = await pacedCommits(
  { databaseUrl: workspace.databaseUrl, rate: RATE, connections: CONNECTIONS },
  SECONDS * 1_000,
);
await service.server.stop();

const traced = tracedFrom(each, calls).toSorted((a, b) => tookMs(a) - tookMs(b));
const tails = { [WIRE]: sorted, "bare commit": commits.sorted };
const tailRows = Object.entries(tails).map(([name, times]) => {
  const [p50, p99, p999] = [0.5, 0.99, 0.999].map((share) => quantile(times, share)) as [number, number, number];
  return [`${name}, ${RATE} a second`, figure(p50), figure(p99), figure(p999), figure(p99 / p50)];
});
console.log(tableFrom(["milliseconds", "p50", "p99", "p99.9", "p99 / p50"], tailRows));
const commitMs = median(traced.map((call) => call.appendedAt - call.decidedAt));
const waitedMs = (call: Traced): number => call.delayAfter - call.delayBefore;
const causes = {
  "a wait of the service for a processor": waitedMs,
  "a collection of garbage": (call: Traced) => within(call, collections),
  "a turn of the event loop": (call: Traced) => within(call, turns),
  "a commit beyond the median commit": (call: Traced) => call.appendedAt - call.decidedAt - commitMs,
  "a checkpoint's writing": (call: Traced) => within(call, written),
};
console.log("\nall calls");
printStages(traced, causes);
console.log(`\ncalls during which the service waited for a processor at most ${SLIGHT_MS} ms`);
printStages(
  traced.filter((call) => waitedMs(call) <= SLIGHT_MS),
  causes,
);
process.exit();
