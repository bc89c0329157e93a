import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fromBinary } from "@bufbuild/protobuf";
import { Client } from "pg";
import { InterceptResponseSchema } from "../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision } from "../../../gen/agentcontrol/v1/resources_pb.js";
import { requestsOf, unaryBytes } from "../workload.ts";
import { callOnce } from "./grpc-calls.ts";
import { framed } from "./grpc-messages.ts";
import { UNARY_PATH } from "./paths.ts";
import type { LoadPlan, Measured, ToolSource } from "./plan.ts";
import { runTool, withFolder } from "./tool-process.ts";
import { costsOf, quantile, usageOf } from "./usage.ts";

type H2loadSource = Extract<ToolSource, { kind: "h2load" }>;

/** Milliseconds that the load goes on after what is measured, so that it is the same until then. */
const SLACK_MS = 500;
/** Milliseconds that the tool may take beside its load. */
const MOST_BESIDE_MS = 15_000;
const MICROSECONDS = 1_000;
const OK = "200";
/** Least share of the callers that are to wait for a reply at any time: of callers that all do, 0.95 and more. */
const LEAST_WAITING = 0.8;
/** What the tool reports when all requests that were answered succeeded. */
const NONE_FAILED = /^requests: .* 0 failed, 0 errored, 0 timeout$/m;

/** A call of the tool's log, in milliseconds since the epoch. */
export interface LoggedCall {
  readonly startedAt: number;
  readonly endedAt: number;
}

/** Reads the log: a line for each reply with its start, its HTTP status and how long it took. Throws for any but 200. */
export function callsFrom(log: string): LoggedCall[] {
  const lines = log.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [start, status, took] = line.split("\t");
    if (status !== OK) throw new Error(`h2load got a reply with HTTP status ${status}`);
    return { startedAt: Number(start) / MICROSECONDS, endedAt: (Number(start) + Number(took)) / MICROSECONDS };
  });
}

/** Calls that were under way on average from one time to another. */
export function underWay(calls: readonly LoggedCall[], from: number, to: number): number {
  const times = calls.map(({ startedAt, endedAt }) => Math.max(0, Math.min(endedAt, to) - Math.max(startedAt, from)));
  return times.reduce((sum, time) => sum + time, 0) / (to - from);
}

function argumentsFor(source: H2loadSource, folder: string, durationMs: number): string[] {
  const { target, callers, isShared } = source;
  const headers = ["content-type: application/grpc", "te: trailers", `x-api-key: ${target.apiKey}`];
  return [
    ...["-c", String(isShared ? 1 : callers), "-m", String(isShared ? callers : 1), "-t", "1", "-D", `${durationMs}ms`],
    ...headers.flatMap((header) => ["-H", header]),
    ...["-d", join(folder, "body"), `--log-file=${join(folder, "log")}`, `http://${target.address}${UNARY_PATH}`],
  ];
}

/** Entries of all logs in a database. */
async function entriesIn(databaseUrl: string): Promise<number> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ entries: number }>(
      "select coalesce(sum(seq), 0)::float8 as entries from ledger_head",
    );
    return rows[0]?.entries ?? 0;
  } finally {
    await client.end();
  }
}

/** The action that is repeated. Rejects when the target does not allow it: the tool could not tell. */
async function allowedAction({ target }: H2loadSource): Promise<Buffer> {
  const [request] = requestsOf(target.agentIds).map(unaryBytes);
  const reply = await callOnce(target, UNARY_PATH, request as Buffer);
  const { decision } = fromBinary(InterceptResponseSchema, reply);
  if (decision !== Decision.ALLOW) throw new Error(`the action of the load got the decision ${Decision[decision]}`);
  return request as Buffer;
}

/** Runs the tool and watches the time that is measured; the processes are watched in just that time. */
async function watch(source: H2loadSource, { warmUpMs, measureMs, watched }: LoadPlan, folder: string) {
  const durationMs = Math.ceil(warmUpMs + measureMs + SLACK_MS);
  const args = argumentsFor(source, folder, durationMs);
  let hasEnded = false;
  const running = runTool("h2load", args, durationMs + MOST_BESIDE_MS).finally(() => {
    hasEnded = true;
  });
  // Told below; until then a failure must not end the process.
  running.catch(() => undefined);
  await delay(warmUpMs);
  const from = { ...usageOf(watched), time: Date.now() };
  await delay(measureMs);
  const to = { ...usageOf(watched), time: Date.now() };
  const wasRunning = !hasEnded;
  const report = await running;
  const calls = callsFrom(await readFile(join(folder, "log"), "latin1"));
  // It goes on without the connections that it lost, and reports no failure of them.
  const waiting = underWay(calls, from.time, to.time) / source.callers;
  if (!wasRunning || !NONE_FAILED.test(report) || !(waiting >= LEAST_WAITING)) {
    throw new Error(`h2load did not load as it should; busy were ${waiting.toFixed(2)} of its callers:\n${report}`);
  }
  return { from, to, calls };
}

/**
 * Measures unary gRPC calls that h2load makes. It does not look at what a reply says, so that is shown by a call before and
 * by the log of the service, which MUST have grown by as many entries as there were replies.
 */
export async function measureH2load(source: H2loadSource, plan: LoadPlan): Promise<Measured> {
  const { databaseUrl } = source;
  const action = await allowedAction(source);
  const entriesBefore = databaseUrl === undefined ? 0 : await entriesIn(databaseUrl);
  const { from, to, calls } = await withFolder(async (folder) => {
    await writeFile(join(folder, "body"), framed(action));
    return watch(source, plan, folder);
  });
  if (databaseUrl !== undefined) {
    const grown = (await entriesIn(databaseUrl)) - entriesBefore;
    if (grown < calls.length) throw new Error(`${calls.length} replies, but only ${grown} entries in the log`);
  }
  const counted = calls.filter(({ endedAt }) => endedAt >= from.time && endedAt < to.time);
  const sorted = Float64Array.from(counted, ({ startedAt, endedAt }) => endedAt - startedAt).sort();
  return {
    perSecond: (counted.length * 1_000) / (to.time - from.time),
    p50: quantile(sorted, 0.5),
    p99: quantile(sorted, 0.99),
    ...costsOf(from, to, counted.length),
  };
}
