/*
 * What an allowed tool call costs through the MCP gateway: its median beside that of the same call made directly over HTTP, and beside a
 * commit of the database. Run with `node test/bench/mcp.ts [calls]`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { asking, connectStateful, connectStateless, startGatewayProcess } from "../gateway/harness.ts";
import { startToolsServer } from "../gateway/tools-server.ts";

const CALLS = Number(process.argv[2] ?? 500);
const ROUNDS = 5;
/** Times a direct call that a call through the gateway may take, beside one commit. */
const MOST = 3;

const median = (times: readonly number[]): number =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;

async function timed(count: number, run: (index: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const before = performance.now();
    await run(index);
    times.push(performance.now() - before);
  }
  return median(times);
}

/** The upstream server in a process of its own, as it would be. */
async function serve(): Promise<void> {
  const server = await startToolsServer();
  console.log(server.url);
}

async function measure(): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const child = spawn(process.execPath, [import.meta.filename, "serve"], { stdio: ["ignore", "pipe", "inherit"] });
  cleanup.defer(() => void child.kill("SIGKILL"));
  const [url] = (await once(createInterface(child.stdout), "line")) as [string];
  const gateway = await startGatewayProcess({ env: { ACP_LOG_LEVEL: "error" } });
  cleanup.defer(async () => void (await gateway.stop()));
  await gateway.add("bank", { url });
  const database = new Client({ connectionString: gateway.database.ownerUrl });
  await database.connect();
  cleanup.defer(() => database.end());
  await database.query("create table bench_commit (at bigint)");
  const commit = () => timed(CALLS, (index) => database.query("insert into bench_commit values ($1)", [index]));
  console.log("generation       direct ms   commit ms   gateway ms   gateway / (3 direct + commit)");
  for (const connect of [connectStateful, connectStateless]) {
    const direct = asking(await connect(new URL(url)));
    const through = asking(await connect(gateway.urlOf("bank"), gateway.headers));
    const call = (client: typeof direct) => (index: number) =>
      client.request({ method: "tools/call", params: { name: "pay", arguments: { index } } });
    await timed(50, call(direct));
    await timed(50, call(through));
    const rounds: { direct: number; commit: number; gateway: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      rounds.push({
        direct: await timed(CALLS, call(direct)),
        commit: await commit(),
        gateway: await timed(CALLS, call(through)),
      });
    }
    const of = (name: "direct" | "commit" | "gateway") => median(rounds.map((round) => round[name]));
    const ratio = of("gateway") / (MOST * of("direct") + of("commit"));
    const generation = connect === connectStateful ? "with sessions" : "stateless";
    const figures = [of("direct"), of("commit"), of("gateway"), ratio]
      .map((each) => each.toFixed(2).padStart(11))
      .join(" ");
    console.log(`${generation.padEnd(14)} ${figures}   ${ratio <= 1 ? "holds" : "missed"}`);
    if (ratio > 1) process.exitCode = 1;
    await direct.close();
    await through.close();
  }
}

await (process.argv[2] === "serve" ? serve() : measure());
