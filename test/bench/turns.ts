import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { post as postRaw } from "../gateway/raw-client.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { agentOf, asker, sender } from "./attacks.ts";
import type { Child } from "./child.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, median, rangeOf, tableFrom } from "./report.ts";
import type { PartReport } from "./throughput.ts";
import { type TurnLab, turnLoads } from "./turn-loads.ts";
import { type HeavyAnswer, startHeavyMcp, startHeavyModel } from "./turn-upstreams.ts";

/** Milliseconds of processor time that the event loop may take for one turn. */
const MAX_TURN_MS = 50;
/** Calls of a load that are in flight at the same time. */
const AT_ONCE = 8;
/** Loads that are shown: those with the longest turns. */
const SHOWN = 25;
const MONITOR = join(import.meta.dirname, "turn-monitor.ts");

/** An MCP server over standard streams, which asks the one over HTTP for its answers. */
const COMMAND = `
import { createInterface } from "node:readline";
const [, , url] = process.argv;
createInterface(process.stdin).on("line", async (line) => {
  const response = await fetch(url, { method: "POST", body: line });
  if (response.status !== 202) process.stdout.write((await response.text()) + "\\n");
});
`;

/** Longest turn of a service since it was asked before, and its memory. */
interface Monitored {
  readonly longestMs: number;
  readonly rssBytes: number;
}

const askMonitor = async (path: string): Promise<Monitored> => (await json(connect(path))) as Monitored;

async function openLab(server: TestServer, cleanup: AsyncDisposableStack, folder: string): Promise<TurnLab> {
  const results = new Map<string, HeavyAnswer>();
  const admin = asker(server, server.adminKey);
  const { json: created } = await admin("POST", "/v1/admin/workspaces", { workspace_id: "own" });
  const key = String(created.secret);
  const [ask, send] = [asker(server, key), sender(server, key)];
  const agentId = await agentOf(ask);
  let listing = '{"tools":[{"name":"small","inputSchema":{"type":"object"}}]}';
  // Tools of the loads are listed as they are made.
  const listed = (): string => {
    const names = [...results.keys()].map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`);
    return listing.replace('{"tools":[', `{"tools":[${names.length === 0 ? "" : `${names.join()},`}`);
  };
  const mcp = await startHeavyMcp(results, listed);
  cleanup.defer(() => mcp.close());
  const command = join(folder, "command.mjs");
  await writeFile(command, COMMAND, { mode: 0o644 });
  const add = (name: string, more: object, by = ask) => by("POST", "/v1/enforce/mcp-servers", { name, ...more });
  await add("heavy", { url: mcp.url });
  await add("scrubbed", { url: mcp.url, scrub: ["email", "phone", "payment_card", "iban"] });
  const added = await add("command", { command: process.execPath, args: [command, mcp.url] }, admin);
  if (added.status !== 200) throw new Error(JSON.stringify(added.json));
  const adminAgent = await agentOf(admin);
  const identity = (name: string): Record<string, string> =>
    name === "command"
      ? { "x-api-key": server.adminKey, "x-agent-id": adminAgent }
      : { "x-api-key": key, "x-agent-id": agentId };
  const sessions = new Map<string, Promise<string>>();
  const url = (name: string): URL => new URL(`${server.http}/mcp/${name}`);
  const open = async (name: string): Promise<string> => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } };
    const opened = await postRaw(url(name), identity(name), { jsonrpc: "2.0", id: 0, method: "initialize", params });
    const id = opened.headers.get("mcp-session-id") ?? "";
    const own = { ...identity(name), "mcp-session-id": id };
    await postRaw(url(name), own, { jsonrpc: "2.0", method: "notifications/initialized" });
    return id;
  };
  let calls = 0;
  const post: TurnLab["post"] = async (path, body, headers = {}) => {
    const own = { "x-api-key": key, "x-agent-id": agentId, "content-type": "application/json" };
    const response = await fetch(server.http + path, { method: "POST", headers: { ...own, ...headers }, body });
    await response.arrayBuffer();
    return response.status;
  };
  return {
    ask,
    send,
    agentId,
    results,
    completions: new Map(),
    setListing(text) {
      listing = text;
    },
    post,
    async callTool(name, tool, isStateless, args = "{}") {
      const session = sessions.get(name) ?? open(name);
      if (!isStateless) sessions.set(name, session);
      const envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      };
      const meta = isStateless ? `,"_meta":${JSON.stringify(envelope)}` : "";
      const headers = isStateless
        ? { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool }
        : { "mcp-protocol-version": "2025-11-25", "mcp-session-id": await session };
      const params = `{"name":"${tool}","arguments":${args}${meta}}`;
      return post(`/mcp/${name}`, `{"jsonrpc":"2.0","id":${++calls},"method":"tools/call","params":${params}}`, {
        ...identity(name),
        accept: "application/json, text/event-stream",
        ...headers,
      });
    },
  };
}

/** Makes the calls of a load, some of which are in flight at the same time. Returns the status of the first. */
async function makeCalls(call: () => Promise<unknown>, seconds: number): Promise<number | undefined> {
  const untilMs = performance.now() + seconds * 1_000;
  const work = async (): Promise<unknown> => {
    const first = await call();
    while (performance.now() < untilMs) await call();
    return first;
  };
  const [first] = await Promise.all(Array.from({ length: AT_ONCE }, work));
  return typeof first === "number" ? first : (first as { readonly status?: number } | undefined)?.status;
}

/** Measures the longest turn of the event loop under each load. */
export async function measureTurns(
  { seconds, rounds, loads }: BenchOptions,
  postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const folder = await mkdtemp(join(tmpdir(), "acp-turns-"));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  // The account of the command reads its program here.
  await chmod(folder, 0o755);
  const socket = join(folder, "turns");
  const completions = new Map<string, HeavyAnswer>();
  const model = await startHeavyModel(completions);
  cleanup.defer(() => model.close());
  const server = await startServer({
    databaseUrl: await postgres.createDatabase("turns"),
    env: {
      NODE_OPTIONS: `--import=${MONITOR}`,
      TURNS_SOCKET: socket,
      ACP_LLM_URL: model.url,
      ACP_LLM_KEY: "bench",
      ACP_GUARD_URL: model.url,
      ACP_GUARD_MODEL: "guard",
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_MCP_ALLOW_SAME_USER: "true",
      ACP_LOG_LEVEL: "error",
    },
  });
  cleanup.defer(async () => void (await server.stop()));
  const lab = { ...(await openLab(server, cleanup, folder)), completions };
  const turns = new Map<string, number[]>();
  for (const { name, prepare } of turnLoads().filter((each) => each.name.includes(loads))) {
    const call = await prepare(lab);
    await makeCalls(call, 0);
    const figures: number[] = [];
    for (let round = 0; round < rounds; round++) {
      await askMonitor(socket);
      const status = await makeCalls(call, seconds);
      const { longestMs, rssBytes } = await askMonitor(socket);
      figures.push(longestMs);
      const memory = Math.round(rssBytes / 2 ** 20);
      console.error(`round ${round}  ${figure(longestMs).padStart(6)} ms  ${memory} MiB  status ${status}  ${name}`);
    }
    turns.set(name, figures);
  }
  const rows = [...turns]
    .sort(([, a], [, b]) => median(b) - median(a))
    .slice(0, SHOWN)
    .map(([name, figures]) => [name, figure(median(figures)), rangeOf(figures)]);
  return {
    text: tableFrom([`longest turns of ${turns.size} loads`, "ms of processor time", "of all rounds"], rows),
    checks: [
      {
        name: "longest turn of the event loop by thread CPU time",
        figures: [Math.max(...[...turns.values()].map(median))],
        bound: { atMost: MAX_TURN_MS },
        unit: "ms",
      },
    ],
  };
}
