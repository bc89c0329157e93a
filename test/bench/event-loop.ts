/*
 * How long requests made to be slow hold up the event loop, and what a caller of another workspace notices. Run with
 * `node test/bench/event-loop.ts [seconds] [part of a name]`. One process; its own gauge of the event loop is read after each
 * attack. Attacks come one after the other for some seconds, beside one caller of another workspace that decides all the time, in a thread of its own.
 */
import { once } from "node:events";
import { type MessagePort, parentPort, Worker, workerData } from "node:worker_threads";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ATTACKS, agentOf, asker, intercepts, sender } from "./attacks.ts";
import { figure, tableFrom } from "./report.ts";

const SECONDS = Number(process.argv[2] ?? 4);
/** Milliseconds that the event loop may be held up beyond what it is without an attack. */
const BOUND_MS = 50;
/** How many times its own p99 another workspace may wait. */
const BOUND_RATIO = 5;
const ONLY = process.argv[3] ?? "";

/** Milliseconds that the event loop was held up since this was asked before. */
async function delayOf(server: TestServer): Promise<number> {
  const text = await (await fetch(`${server.http}/metrics`)).text();
  return Number(/^acp_event_loop_delay_seconds ([\d.e-]+)$/m.exec(text)?.[1]) * 1_000;
}

/** Calls one after the other until the time is over; gives how long each took, sorted. */
async function timesOf(call: () => Promise<unknown>, untilMs: number): Promise<readonly number[]> {
  const times: number[] = [];
  while (performance.now() < untilMs || times.length === 0) {
    const startedAt = performance.now();
    await call();
    times.push(performance.now() - startedAt);
  }
  return times.sort((a, b) => a - b);
}

const p99 = (sorted: readonly number[]): number => sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN;
const median = (sorted: readonly number[]): number => sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;

interface OtherCaller {
  readonly http: string;
  readonly key: string;
  readonly agentId: string;
}

/** Decides for the other workspace in this thread, for as many seconds as each message says, and answers with the times. */
function serveOther({ http, key, agentId }: OtherCaller, port: MessagePort): void {
  const decides = intercepts(asker({ http }, key), agentId, { action_type: "file.read", action_content: "a line" });
  port.on("message", async (seconds: number) => {
    port.postMessage(await timesOf(decides, performance.now() + seconds * 1_000));
  });
}

if (parentPort !== null) serveOther(workerData as OtherCaller, parentPort);
else await attackAll();

async function attackAll(): Promise<void> {
  const cleanup = new AsyncDisposableStack();
  try {
    const server = await startServer({ databaseUrl: await startOwnPostgres(cleanup) });
    cleanup.defer(async () => void (await server.stop()));
    const admin = asker(server, server.adminKey);
    const keys = new Map<string, string>();
    for (const workspace_id of ["own", "other"]) {
      const { json } = await admin("POST", "/v1/admin/workspaces", { workspace_id });
      keys.set(workspace_id, String(json.secret));
    }
    const [own, other] = [asker(server, keys.get("own") ?? ""), asker(server, keys.get("other") ?? "")];
    const [ownAgent, otherAgent] = [await agentOf(own), await agentOf(other)];
    const caller: OtherCaller = { http: server.http, key: keys.get("other") ?? "", agentId: otherAgent };
    const thread = new Worker(import.meta.filename, { workerData: caller });
    cleanup.defer(async () => void (await thread.terminate()));
    const otherTimes = async (seconds: number): Promise<readonly number[]> => {
      thread.postMessage(seconds);
      return (await once(thread, "message"))[0];
    };
    await otherTimes(3);
    await delayOf(server);
    const alone = p99(await otherTimes(SECONDS));
    const idle = await delayOf(server);
    console.log(`without an attack: ${figure(idle)} ms held up, p99 of the other workspace ${figure(alone)} ms`);
    const rows: string[][] = [];
    let isKept = true;
    for (const { name, prepare } of ATTACKS.filter((each) => each.name.includes(ONLY))) {
      const attack = await prepare(own, ownAgent, sender(server, keys.get("own") ?? ""));
      await attack();
      await delayOf(server);
      const untilMs = performance.now() + SECONDS * 1_000;
      const [attacks, others] = await Promise.all([timesOf(attack, untilMs), otherTimes(SECONDS)]);
      const held = (await delayOf(server)) - idle;
      const ratio = p99(others) / alone;
      const passes = held <= BOUND_MS && ratio <= BOUND_RATIO;
      isKept &&= passes;
      rows.push([
        name,
        figure(held),
        figure(p99(others)),
        figure(ratio),
        figure(median(attacks)),
        passes ? "PASS" : "FAIL",
      ]);
    }
    console.log(tableFrom(["attack", "held up ms", "other p99 ms", "times alone", "attack p50 ms", ""], rows));
    console.log(`bounds: ${BOUND_MS} ms held up, ${BOUND_RATIO} times the p99 alone`);
    if (!isKept) process.exitCode = 1;
  } finally {
    await cleanup.disposeAsync();
  }
}
