/*
 * The cost of looking at a server's definitions: calls of 16 clients through a server of the gateway that is looked at by its `drift`,
 * in turns with the same server at `drift: 3600`. Run with `node test/bench/mcp-drift.ts [seconds]`; 3 by default for each load.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import {
  type AnyClient,
  asking,
  connectStateful,
  type GatewayServiceProcess,
  startGatewayProcess,
} from "../gateway/harness.ts";
import { startToolsServer, tool } from "../gateway/tools-server.ts";
import { cpuSeconds } from "./cpu.ts";
import { type Check, checksTable, figure, holds, median, tableFrom } from "./report.ts";

const SECONDS = 3;
const ROUNDS = 5;
const CALLERS = 16;
const REFERENCE = "3600";

/** A server behind the gateway, and the clients that call its tools. */
interface Target {
  readonly name: string;
  readonly mode: "open" | "quarantine";
  readonly drift: string;
  readonly tools: number;
  readonly clients: readonly AnyClient[];
}

/** Latency and processor time of the calls of one load. */
interface Load {
  readonly p50Ms: number;
  readonly cpuMsPerCall: number;
}

/** The comparisons: a drift beside the reference, and the bounds on its latency and on its processor time. */
const COMPARED = [
  { mode: "quarantine", drift: "each_call", tools: [2, 50, 200], mostLatency: 2.5, mostCpu: 3 },
  { mode: "open", drift: "5", tools: [2, 200], mostLatency: 1.3, mostCpu: 2 },
] as const;

const schema = {
  type: "object",
  properties: {
    amount: { type: "number", description: "the amount in the currency's main unit", minimum: 0 },
    currency: { type: "string", enum: ["EUR", "USD", "GBP"] },
    to: { type: "string", description: "the account that is paid", maxLength: 34 },
    lines: { type: "array", items: { type: "object", properties: { text: { type: "string" } } } },
  },
  required: ["amount"],
};

/** The upstream server in a process of its own, as it would be. */
async function serve(count: number): Promise<void> {
  const tools = Array.from({ length: count }, (_, index) => tool(`tool_${index}`, { inputSchema: schema }));
  console.log((await startToolsServer(tools)).url);
}

async function startUpstream(count: number, cleanup: AsyncDisposableStack): Promise<string> {
  const child = spawn(process.execPath, [import.meta.filename, "serve", String(count)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  cleanup.defer(() => void child.kill("SIGKILL"));
  const [url] = (await once(createInterface(child.stdout), "line")) as [string];
  return url;
}

/** Registers a server, accepts its tools, and connects its clients. */
async function addTarget(
  gateway: GatewayServiceProcess,
  url: string,
  { mode, drift, tools }: Omit<Target, "name" | "clients">,
): Promise<Target> {
  const name = `${mode}-${tools}-${drift.replace("_", "-")}`;
  await gateway.add(name, { url }, { mode, drift });
  await gateway.rest(`POST /v1/enforce/mcp-servers/${name}:refresh`, {});
  if (mode === "quarantine") {
    for (let index = 0; index < tools; index++) {
      await gateway.rest(`POST /v1/enforce/mcp-servers/${name}/tools/tool_${index}:accept`, { version: 1 });
    }
  }
  const clients: AnyClient[] = [];
  for (let caller = 0; caller < CALLERS; caller++) {
    clients.push(asking(await connectStateful(gateway.urlOf(name), gateway.headers)));
  }
  return { name, mode, drift, tools, clients };
}

async function measure(gateway: GatewayServiceProcess, { clients, tools }: Target, seconds: number): Promise<Load> {
  const times: number[] = [];
  const until = performance.now() + seconds * 1_000;
  const cpuBefore = cpuSeconds(gateway.pid) ?? Number.NaN;
  await Promise.all(
    clients.map(async (client, caller) => {
      for (let call = caller; performance.now() < until; call++) {
        const before = performance.now();
        const result = await client.request({
          method: "tools/call",
          params: { name: `tool_${call % tools}`, arguments: { amount: call } },
        });
        if (result.isError === true) throw new Error(JSON.stringify(result));
        times.push(performance.now() - before);
      }
    }),
  );
  const cpuMs = ((cpuSeconds(gateway.pid) ?? Number.NaN) - cpuBefore) * 1_000;
  return { p50Ms: median(times), cpuMsPerCall: cpuMs / times.length };
}

/** Measures a drift beside the reference at each number of tools. Returns the rows of a table and the checks. */
async function compare(
  gateway: GatewayServiceProcess,
  seconds: number,
  { mode, drift, tools: counts, mostLatency, mostCpu }: (typeof COMPARED)[number],
) {
  const rows: string[][] = [];
  const checks: Check[] = [];
  const cpu = new Map<number, readonly number[]>();
  for (const tools of counts) {
    await using cleanup = new AsyncDisposableStack();
    const url = await startUpstream(tools, cleanup);
    const measured = await addTarget(gateway, url, { mode, drift, tools });
    const reference = await addTarget(gateway, url, { mode, drift: REFERENCE, tools });
    cleanup.defer(async () => {
      await Promise.all([...measured.clients, ...reference.clients].map((client) => client.close()));
    });
    for (const target of [measured, reference]) await measure(gateway, target, seconds / 3);
    const rounds: (readonly [measured: Load, reference: Load])[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const order = round % 2 === 0 ? [measured, reference] : [reference, measured];
      const loads = new Map<Target, Load>();
      for (const target of order) loads.set(target, await measure(gateway, target, seconds));
      rounds.push([loads.get(measured) as Load, loads.get(reference) as Load]);
    }
    for (const [side, target] of [measured, reference].entries()) {
      const of = (member: keyof Load) => figure(median(rounds.map((round) => (round[side] as Load)[member])));
      rows.push([`${mode}, ${tools} tools, drift ${target.drift}`, of("p50Ms"), of("cpuMsPerCall")]);
    }
    cpu.set(
      tools,
      rounds.map(([load]) => load.cpuMsPerCall),
    );
    checks.push({
      name: `p50 at ${drift} over ${REFERENCE}, ${tools} tools`,
      figures: rounds.map(([load, other]) => load.p50Ms / other.p50Ms),
      bound: { atMost: mostLatency },
      unit: "x",
    });
  }
  const [few = [], many = []] = [cpu.get(counts[0]), cpu.get(counts.at(-1) ?? 0)];
  checks.push({
    name: `CPU a call at ${drift}, ${counts.at(-1)} tools over ${counts[0]}`,
    figures: many.map((each) => each / median(few)),
    bound: { atMost: mostCpu },
    unit: "x",
  });
  return { rows, checks };
}

async function compareAll(seconds: number): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const gateway = await startGatewayProcess({ env: { ACP_LOG_LEVEL: "error" } });
  cleanup.defer(async () => void (await gateway.stop()));
  const compared = [];
  for (const each of COMPARED) compared.push(await compare(gateway, seconds, each));
  console.log(
    tableFrom(
      [`${CALLERS} callers`, "p50 ms", "CPU ms a call"],
      compared.flatMap(({ rows }) => rows),
    ),
  );
  const checks = compared.flatMap(({ checks: some }) => some);
  console.log(`\n${checksTable(checks)}`);
  if (!checks.every(holds)) process.exitCode = 1;
}

const [first = String(SECONDS), count = ""] = process.argv.slice(2);
await (first === "serve" ? serve(Number(count)) : compareAll(Number(first)));
