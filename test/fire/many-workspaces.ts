import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { quantile } from "../bench/load.ts";
import { decided, interceptOver } from "../log/rest.ts";
import { metricsOf, sumOf } from "../support/metrics.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { createFireWorkspace, type FireWorkspace } from "./agents.ts";

/** Size of a run. */
export interface WorkspacesSize {
  readonly workspaces: number;
  readonly decisions: number;
  /** Workspaces whose first decision on a new process is timed. */
  readonly coldStarts: number;
  /** Milliseconds without use after which memory is read again. */
  readonly idleMs: number;
}

/** Result of a run. Memory is of the heap and of buffers outside of it. */
export interface WorkspacesReport {
  /** KiB that a loaded workspace takes. */
  readonly loadedKib: number;
  /** KiB that is left of a workspace which nobody used for a while. */
  readonly idleKib: number;
  /** Milliseconds of the first decision of a workspace on a process that had not loaded it. */
  readonly coldP50: number;
  readonly coldP99: number;
  /** Resident memory with every workspace loaded, MiB. */
  readonly residentMib: number;
}

const ACTION = "many.act";
const CALLERS = 32;
const KIB = 1_024;
/** Milliseconds after which the collector has seen the end of what was in use. */
const QUIET_MS = 20_000;

async function inTurns<T>(items: readonly T[], use: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const lane = async (): Promise<void> => {
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) await use(item);
  };
  await Promise.all(Array.from({ length: CALLERS }, lane));
}

async function decide(server: TestServer, { agentId, apiKey }: FireWorkspace): Promise<void> {
  const outcome = await interceptOver({ ...server, adminKey: apiKey }, { agent_id: agentId, action_type: ACTION });
  decided(outcome);
}

async function memoryOf({ http }: TestServer): Promise<{ readonly used: number; readonly resident: number }> {
  const samples = await metricsOf(http);
  const used = sumOf(samples, "nodejs_heap_size_used_bytes") + sumOf(samples, "nodejs_external_memory_bytes");
  return { used, resident: sumOf(samples, "process_resident_memory_bytes") };
}

/** The least memory in use that several looks see: right after a collection. */
async function settledMemory(server: TestServer): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (const end = performance.now() + QUIET_MS; performance.now() < end; await delay(500))
    least = Math.min(least, (await memoryOf(server)).used);
  return least;
}

/** Fills many workspaces of one process, and starts another one that knows none of them yet. */
export async function runManyWorkspaces(databaseUrl: string, size: WorkspacesSize): Promise<WorkspacesReport> {
  await using cleanup = new AsyncDisposableStack();
  const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), ACP_LOG_LEVEL: "error" };
  const start = async (): Promise<TestServer> => {
    const server = await startServer({ databaseUrl, env });
    cleanup.defer(async () => void (await server.stop()));
    return server;
  };
  const filling = await start();
  const names = Array.from({ length: size.workspaces }, (_, index) => `many-${index}`);
  const workspaces: FireWorkspace[] = [];
  await inTurns(names, async (name) => void workspaces.push(await createFireWorkspace(filling, name)));
  await inTurns(workspaces, async (workspace) => {
    for (let decision = 0; decision < size.decisions; decision++) await decide(filling, workspace);
  });
  await filling.stop();
  const server = await start();
  const [warm] = workspaces as [FireWorkspace];
  for (let call = 0; call < 200; call++) await decide(server, warm);
  const before = await settledMemory(server);
  const times: number[] = [];
  for (const workspace of workspaces.slice(1, size.coldStarts + 1)) {
    const startedAt = performance.now();
    await decide(server, workspace);
    times.push(performance.now() - startedAt);
  }
  await inTurns(workspaces, (workspace) => decide(server, workspace));
  const loaded = await settledMemory(server);
  const { resident } = await memoryOf(server);
  await delay(size.idleMs);
  const idle = await settledMemory(server);
  const sorted = Float64Array.from(times).sort();
  return {
    loadedKib: (loaded - before) / size.workspaces / KIB,
    idleKib: (idle - before) / size.workspaces / KIB,
    coldP50: quantile(sorted, 0.5),
    coldP99: quantile(sorted, 0.99),
    residentMib: resident / KIB / KIB,
  };
}
