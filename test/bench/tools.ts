/* Load by h2load (gRPC unary) and wrk (REST), where they are on the `PATH`. Each run is a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, rmSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { fromBinary } from "@bufbuild/protobuf";
import { InterceptResponseSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { withOwner } from "../support/owner.ts";
import { callOnce } from "./clients.ts";
import { quantile, REST_PATH, type Run, type Source, type Target, UNARY_PATH } from "./load.ts";
import { jsonOf, requestsOf, unaryBytes } from "./workload.ts";

/** The tools that the machine has. */
export interface Tools {
  readonly h2load: boolean;
  readonly wrk: boolean;
}

type Unary = Extract<Source, { kind: "unary" }>;
type Rest = Extract<Source, { kind: "rest" }>;

/** Milliseconds that a tool may take beside its load. */
const MAX_BESIDE_MS = 30_000;
/** Report of h2load when every request that was answered succeeded. */
const NONE_FAILED = /^requests: .* 0 failed, 0 errored, 0 timeout$/m;
const WRK_SCRIPT = join(import.meta.dirname, "wrk.lua");

function isOnPath(name: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Looks for the tools on the `PATH`. */
export const findTools = (): Tools => ({ h2load: isOnPath("h2load"), wrk: isOnPath("wrk") });

/** Says what makes the load of which wire. */
export function toolsText({ h2load, wrk } = findTools()): string {
  const unary = h2load ? "h2load, which repeats one action that is allowed" : "grpc-js";
  return `load: gRPC unary by ${unary}; REST by ${wrk ? "wrk" : "Node's HTTP client"}; streams by grpc-js`;
}

/** Runs `use` with a new folder that is gone afterwards, or when the process ends. */
async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "acp-load-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    return await use(folder);
  } finally {
    process.off("exit", remove);
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs a program until it ends; gives its standard output. Rejects when it fails, and after `limitMs` milliseconds. */
async function runTool(command: string, args: readonly string[], limitMs: number): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], timeout: limitMs, killSignal: "SIGKILL" });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  try {
    const [output, errors, [code, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>,
    ]);
    if (code === 0) return output;
    throw new Error(`${command} ended with ${code ?? signal}: ${errors || output}`);
  } finally {
    process.off("exit", kill);
  }
}

/** A message in the frame of gRPC: a byte without compression, its length, itself. */
export function framed(message: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Returns the action that is repeated. Rejects when the target does not allow it: h2load could not tell. */
async function allowedAction(target: Target): Promise<Buffer> {
  const action = unaryBytes(requestsOf(target.agentIds)[0] as ReturnType<typeof requestsOf>[number]);
  const { decision } = fromBinary(InterceptResponseSchema, await callOnce(target, action));
  if (decision !== Decision.ALLOW) throw new Error(`the action of the load got the decision ${Decision[decision]}`);
  return action;
}

/** Counts the entries of all logs in a database. */
async function entriesIn(databaseUrl: string | undefined): Promise<number> {
  if (databaseUrl === undefined) return Number.POSITIVE_INFINITY;
  return withOwner(databaseUrl, async (client) => {
    const { rows } = await client.query("select coalesce(sum(seq), 0)::float8 as entries from ledger_head");
    return rows[0].entries;
  });
}

/** A request that h2load repeats. */
export interface Repeated {
  readonly url: string;
  readonly headers: readonly string[];
  readonly body: Buffer;
  readonly connections: number;
  /** Requests in flight on each connection. */
  readonly inFlight: number;
  /** True for HTTP/1.1. Default: HTTP/2. */
  readonly isHttp1?: boolean;
  /** Requests that each connection begins a second. Default: each as soon as the one before is answered. */
  readonly rate?: number;
}

/** Replies of h2load: their number a second, and how long each took in milliseconds, in order of size. */
export interface Replies {
  readonly perSecond: number;
  readonly sorted: Float64Array;
}

/** A reply: when its request was sent, in epoch milliseconds, and how many milliseconds it took. */
export interface Replied {
  readonly sentAt: number;
  readonly tookMs: number;
}

/** Reads h2load's log: a line for each reply with its start, its HTTP status and how long it took, in microseconds. */
function repliesFromLog(log: string): Replies & { readonly each: readonly Replied[] } {
  const calls = log
    .trimEnd()
    .split("\n")
    .map((line) => line.split("\t").map(Number) as [start: number, status: number, took: number]);
  const failed = calls.find(([, status]) => status !== 200);
  if (failed !== undefined) throw new Error(`h2load got a reply with HTTP status ${failed[1]}`);
  const from = calls.reduce((least, [start]) => Math.min(least, start), Number.POSITIVE_INFINITY);
  const to = calls.reduce((most, [start, , took]) => Math.max(most, start + took), 0);
  const sorted = Float64Array.from(calls, ([, , took]) => took / 1_000).sort();
  const each = calls.map(([start, , took]) => ({ sentAt: start / 1_000, tookMs: took / 1_000 }));
  return { perSecond: (calls.length * 1e6) / (to - from), sorted, each };
}

/** Repeats a request by h2load for some milliseconds. It does not look into replies. */
export async function repeatRequest(
  repeated: Repeated,
  ms: number,
): Promise<Replies & { readonly each: readonly Replied[] }> {
  const { url, headers, body, connections, inFlight, isHttp1 = false, rate } = repeated;
  return withFolder(async (folder) => {
    await writeFile(join(folder, "body"), body);
    const args = [
      "-c",
      `${connections}`,
      "-m",
      `${inFlight}`,
      "-t",
      "1",
      "-D",
      `${ms}ms`,
      ...headers.flatMap((header) => ["-H", header]),
      "-d",
      join(folder, "body"),
      `--log-file=${join(folder, "log")}`,
      ...(isHttp1 ? ["--h1"] : []),
      ...(rate === undefined ? [] : [`--rps=${rate}`]),
      url,
    ];
    const report = await runTool("h2load", args, ms + MAX_BESIDE_MS);
    if (!NONE_FAILED.test(report)) throw new Error(`requests of h2load failed:\n${report}`);
    return repliesFromLog(await readFile(join(folder, "log"), "latin1"));
  });
}

/** Headers of a gRPC request. */
export const GRPC_HEADERS: readonly string[] = ["content-type: application/grpc", "te: trailers"];

/** Returns the request that h2load repeats: an action that the target allows. Rejects when it does not. */
export async function repeatedAction(source: Pick<Unary, "target" | "callers" | "isShared">): Promise<Repeated> {
  const { target, callers, isShared } = source;
  const body = framed(await allowedAction(target));
  const [connections, inFlight] = isShared ? [1, callers] : [callers, 1];
  const headers = [...GRPC_HEADERS, `x-api-key: ${target.apiKey}`];
  return { url: `http://${target.address}${UNARY_PATH}`, headers, body, connections, inFlight };
}

/**
 * Makes unary gRPC calls by h2load. It does not look at replies, so a call before shows that the action is allowed, and the
 * log of the service, which MUST grow by as many entries, that every reply was a decision.
 */
export async function runH2load(source: Unary, ms: number): Promise<Run> {
  const { databaseUrl } = source;
  const repeated = await repeatedAction(source);
  const entriesBefore = databaseUrl === undefined ? 0 : await entriesIn(databaseUrl);
  const { perSecond, sorted } = await repeatRequest(repeated, ms);
  const grown = (await entriesIn(databaseUrl)) - entriesBefore;
  if (grown < sorted.length) throw new Error(`${sorted.length} replies, but only ${grown} entries in the log`);
  return { replies: sorted.length, perSecond, p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}

/** Bodies that wrk posts in turn. */
export interface Posted {
  readonly url: string;
  readonly bodies: readonly string[];
  readonly apiKey: string;
  readonly callers: number;
}

/** Posts JSON bodies by wrk, on a connection each caller. */
export async function postBodies({ url, bodies, apiKey, callers }: Posted, ms: number): Promise<Run> {
  return withFolder(async (folder) => {
    const file = join(folder, "bodies");
    await writeFile(file, bodies.join("\n"));
    // It takes whole seconds.
    const seconds = Math.ceil(ms / 1_000);
    const options = ["-t", "1", "-c", `${callers}`, "-d", `${seconds}s`, "--timeout", "10s", "-s", WRK_SCRIPT];
    const output = await runTool("wrk", [...options, url, "--", file, apiKey], seconds * 1_000 + MAX_BESIDE_MS);
    const { failed, ...run } = JSON.parse(output.split("\n").at(-2) ?? "") as Run & { readonly failed: number };
    if (failed > 0 || run.replies === 0) throw new Error(`requests of wrk failed:\n${output}`);
    return run;
  });
}

/** Makes REST calls by wrk. */
export async function runWrk({ target, callers }: Rest, ms: number): Promise<Run> {
  const { address, apiKey, agentIds } = target;
  const bodies = requestsOf(agentIds).map(jsonOf);
  return postBodies({ url: `http://${address}${REST_PATH}`, bodies, apiKey, callers }, ms);
}
