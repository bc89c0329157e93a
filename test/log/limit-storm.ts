/*
 * A limit under many actions at once, many times over: `node test/log/limit-storm.ts --runs 20`. It is in turns the workspace's
 * and that of a principal on whose behalf all agents act, and in turns a number of actions and a budget that they pay into, with claims and
 * reports in between. Served by one, two and four processes, without Redis and with one that is killed, flushed and started again
 * meanwhile. Ends with 1 for any run that did not allow exactly as many as the limit says.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startOwnPostgres } from "../support/own-postgres.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { runLimit } from "./limit-run.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "20" },
    actions: { type: "string", default: "1000" },
    limit: { type: "string", default: "100" },
  },
});

function whole(name: "runs" | "actions" | "limit"): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value > 0) return value;
  throw new RangeError(`--${name} must be a whole number above 0, not \`${values[name]}\``);
}

const [runs, actions, limit] = [whole("runs"), whole("actions"), whole("limit")];
const PROCESSES = [1, 2, 4];
const adminKey = randomBytes(24).toString("base64url");
let faults = 0;

async function startAll(databaseUrl: string, redisUrl: string | undefined, cleanup: AsyncDisposableStack) {
  const redis = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
  const env = { ACP_ADMIN_KEY: adminKey, ACP_LOG_LEVEL: "warn", ...redis };
  const servers = await Promise.all(
    Array.from({ length: Math.max(...PROCESSES) }, () => startServer({ databaseUrl, env })),
  );
  for (const server of servers) cleanup.defer(async () => void (await server.stop()));
  return servers;
}

/** Takes Redis away in one way after the other until it is told to end. */
async function trouble(redis: TestRedis, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await redis.client.flushall();
    await delay(150);
    await redis.kill();
    await delay(150);
    await redis.start();
    await delay(150);
    redis.pause();
    await delay(150);
    redis.resume();
  }
}

async function runAll(databaseUrl: string, servers: readonly TestServer[], kind: string): Promise<void> {
  for (const processes of PROCESSES) {
    const serving = servers.slice(0, processes);
    const times: number[] = [];
    for (let run = 0; run < runs; run++) {
      const name = `run.${kind.toLowerCase().replaceAll(" ", "-")}.${processes}.${run}`;
      const under = run % 2 === 0 ? "workspace" : "principal";
      const counts = run % 4 < 2 ? "actions" : "amounts";
      const report = await runLimit({ databaseUrl, servers: serving, agents: 20, actions, under, counts, limit, name });
      for (const fault of report.faults) console.log(`${name}: ${fault}`);
      faults += report.faults.length;
      times.push(report.ms);
    }
    times.sort((one, other) => one - other);
    const middle = times[Math.floor((times.length - 1) / 2)] ?? Number.NaN;
    console.log(
      `${kind}, ${processes} processes: ${runs} runs of ${actions} at once, limit ${limit}; p50 ${middle.toFixed(0)} ms a run`,
    );
  }
}

const cleanup = new AsyncDisposableStack();
try {
  const databaseUrl = await startOwnPostgres(cleanup);
  {
    await using own = new AsyncDisposableStack();
    await runAll(databaseUrl, await startAll(databaseUrl, undefined, own), "without Redis");
  }
  const redis = await startRedis();
  cleanup.defer(() => redis.close());
  const servers = await startAll(databaseUrl, redis.url, cleanup);
  await runAll(databaseUrl, servers, "with Redis");
  const troubled = new AbortController();
  const troubling = trouble(redis, troubled.signal);
  await runAll(databaseUrl, servers, "with Redis in trouble");
  troubled.abort();
  await troubling;
  console.log(`faults ${faults}`);
  if (faults > 0) process.exitCode = 1;
} finally {
  await cleanup.disposeAsync();
}
