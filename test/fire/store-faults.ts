/* Faults of the database, and of the way to it, under callers of two replicas. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Client } from "pg";
import { type Gate, startGate } from "../log/gate.ts";
import { accountOf, type DebianPostgres, startDebianPostgres } from "../support/debian-postgres.ts";
import { metricsOf, type Sample, sumOf } from "../support/metrics.ts";
import { withOwner } from "../support/owner.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { registerAgents } from "./agents.ts";
import { countLost } from "./lost-decisions.ts";
import { startRetryingCallers } from "./retrying-callers.ts";

const run = promisify(execFile);

/** The database under fire. */
interface Surroundings {
  readonly postgres: DebianPostgres;
  /** The way of the replicas to the database. */
  readonly gate: Gate;
  /** Address of the database for its superuser, past the gate. */
  readonly url: string;
  /** Folder of the tablespace that the database lies in. */
  readonly space: string;
}

/** A fault. `begin` returns how to end it. */
export interface StoreFault {
  readonly name: string;
  /** Tests that the metrics of a replica show the fault, given those from before it. */
  readonly isSeen: (during: readonly Sample[], before: readonly Sample[]) => boolean;
  /** True if decisions go on during the fault. */
  readonly isServed?: boolean;
  /** True if it needs a file system of its own. */
  readonly needsMount?: boolean;
  readonly begin: (surroundings: Surroundings) => Promise<() => Promise<void>>;
}

const isDatabaseDown = (during: readonly Sample[]): boolean => sumOf(during, "acp_database_up") === 0;
const waitingCallers = (samples: readonly Sample[]): number =>
  sumOf(samples, "acp_pool_connections", { state: "waiting" }) + sumOf(samples, "acp_queue_length");
const unavailable = (samples: readonly Sample[]): number =>
  sumOf(samples, "acp_calls_total", { code: "UNAVAILABLE" }) +
  sumOf(samples, "acp_calls_total", { code: "DEADLINE_EXCEEDED" });
const decisionSeconds = (samples: readonly Sample[]): number =>
  sumOf(samples, "acp_decision_seconds_sum") / sumOf(samples, "acp_decision_seconds_count");

/** Faults by name. */
export const STORE_FAULTS: readonly StoreFault[] = [
  {
    name: "database paused",
    isSeen: isDatabaseDown,
    async begin({ postgres }) {
      postgres.signal("SIGSTOP");
      return async () => postgres.signal("SIGCONT");
    },
  },
  {
    name: "network cut",
    isSeen: isDatabaseDown,
    async begin({ gate }) {
      gate.shut();
      return async () => gate.open();
    },
  },
  {
    name: "network half open",
    isSeen: (during, before) => waitingCallers(during) > 0 || unavailable(during) > unavailable(before),
    async begin({ gate }) {
      gate.freeze();
      return async () => undefined;
    },
  },
  {
    name: "network slow",
    isServed: true,
    isSeen: (during, before) => decisionSeconds(during) > decisionSeconds(before),
    async begin({ gate }) {
      gate.slow(200);
      return async () => gate.slow(0);
    },
  },
  {
    name: "pool exhausted",
    isSeen: (during) => waitingCallers(during) > 0,
    async begin({ url }) {
      const client = new Client({ connectionString: url });
      await client.connect();
      await client.query("begin; lock table ledger_head, ledger_entry in access exclusive mode");
      return async () => {
        await client.query("rollback");
        await client.end();
      };
    },
  },
  {
    name: "connections exhausted",
    isSeen: (during, before) => isDatabaseDown(during) || unavailable(during) > unavailable(before),
    async begin({ url }) {
      const clients: Client[] = [];
      const take = async (): Promise<boolean> => {
        const client = new Client({ connectionString: url });
        client.on("error", () => undefined);
        try {
          await client.connect();
          clients.push(client);
          return true;
        } catch {
          return false;
        }
      };
      const isOurs = "application_name <> 'fire' and backend_type = 'client backend' and pid <> pg_backend_pid()";
      await take();
      const [first] = clients as [Client];
      await first.query("set application_name = 'fire'");
      await first.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${isOurs}`);
      while (await take());
      return async () => {
        await Promise.all(clients.map((client) => client.end()));
      };
    },
  },
  {
    name: "disk full",
    needsMount: true,
    isSeen: (during, before) => unavailable(during) > unavailable(before),
    async begin({ space }) {
      const filler = join(space, "filler");
      // `dd` writes until the file system is full, and fails then.
      await run("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"]).catch(() => undefined);
      return () => rm(filler);
    },
  },
];

/** Result of a fault under callers. */
export interface FaultReport {
  readonly acknowledged: number;
  /** Numbers of calls without a decision by reason. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Milliseconds from the end of the fault to the first decision after it. */
  readonly recoveryMs: number;
  /** Descriptions of broken promises. */
  readonly faults: readonly string[];
}

/** Size of a run. */
export interface FaultSize {
  readonly callers: number;
  /** Milliseconds of calls before and after the fault. */
  readonly calmMs: number;
  /** Milliseconds of the fault, at least; it lasts until the metrics show it. */
  readonly faultMs: number;
}

const REPLICAS = 2;
const ACTION = "fault.act";
const CLEAR = ["STORE_UNAVAILABLE", "OVERLOADED", "DEADLINE_EXCEEDED"];
/** Milliseconds within which metrics show a fault, and decisions go on after it. */
const PATIENCE_MS = 90_000;
const SPACE_SIZE = "48m";

/** Mounts a small file system where the account of the database may write; undefined where mounting is not allowed. */
export async function mountSpace(cleanup: AsyncDisposableStack): Promise<string | undefined> {
  const space = await mkdtemp(join(tmpdir(), "acp-space-"));
  cleanup.defer(() => rm(space, { recursive: true, force: true }));
  try {
    await run("mount", ["-t", "tmpfs", "-o", `size=${SPACE_SIZE}`, "tmpfs", space]);
  } catch {
    return undefined;
  }
  cleanup.defer(async () => void (await run("umount", ["-l", space])));
  const { uid, gid } = await accountOf("postgres");
  if (uid !== undefined && gid !== undefined) await chown(space, uid, gid);
  return space;
}

async function until(isSo: () => Promise<boolean> | boolean): Promise<boolean> {
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; await delay(50))
    if (await isSo()) return true;
  return false;
}

async function startSurroundings(fault: StoreFault, cleanup: AsyncDisposableStack): Promise<Surroundings | undefined> {
  const postgres = await startDebianPostgres();
  cleanup.defer(() => postgres[Symbol.asyncDispose]());
  const space = fault.needsMount === true ? await mountSpace(cleanup) : "";
  if (space === undefined) return undefined;
  const url = await postgres.database("acp");
  if (space !== "") {
    const maintenance = url.replace(/acp$/, "postgres");
    await withOwner(maintenance, async (client) => {
      await client.query(`create tablespace small location '${space}'`);
      await client.query("alter database acp set tablespace small");
    });
  }
  const gate = await startGate(url);
  cleanup.defer(async () => gate.close());
  return { postgres, gate, url, space };
}

/** Runs a fault under callers. Undefined where this machine cannot make the fault. */
export async function runStoreFault(fault: StoreFault, size: FaultSize): Promise<FaultReport | undefined> {
  await using cleanup = new AsyncDisposableStack();
  const surroundings = await startSurroundings(fault, cleanup);
  if (surroundings === undefined) return undefined;
  const env = { ACP_ADMIN_KEY: randomBytes(24).toString("base64url"), ACP_LOG_LEVEL: "error" };
  const servers: TestServer[] = [];
  for (let replica = 0; replica < REPLICAS; replica++) {
    const server = await startServer({ databaseUrl: surroundings.gate.url, env });
    cleanup.defer(async () => void (await server.stop()));
    servers.push(server);
  }
  const [first] = servers as [TestServer];
  const load = startRetryingCallers(servers, await registerAgents(first, 10), size.callers, ACTION);
  await delay(size.calmMs);
  const before = await metricsOf(first.http);
  const end = await fault.begin(surroundings);
  const begunAt = performance.now();
  const faults: string[] = [];
  const isSeen = async (): Promise<boolean> => fault.isSeen(await metricsOf(first.http), before);
  if (!(await until(isSeen))) faults.push("the metrics do not show the fault");
  await delay(Math.max(0, begunAt + size.faultMs - performance.now()));
  await end();
  const endedAt = performance.now();
  const firstAfter = () => load.acknowledged.find(({ at }) => at > endedAt)?.at;
  if (!(await until(() => firstAfter() !== undefined))) faults.push("no decision after the fault");
  const recoveryMs = (firstAfter() ?? Number.NaN) - endedAt;
  await delay(size.calmMs);
  await load.stop();
  const lost = await countLost(surroundings.url, ACTION, load.acknowledged);
  if (lost > 0) faults.push(`${lost} acknowledged decisions are not in the log as they were told`);
  const unclear = [...load.refusals.keys()].filter((reason) => !CLEAR.includes(reason));
  if (unclear.length > 0) faults.push(`calls ended with ${unclear.join(", ")}`);
  if (fault.isServed === true && load.refusals.size > 0) faults.push("calls were refused, though slow");
  for (const server of servers) {
    const ready = await fetch(`${server.http}/readyz`);
    if (ready.status !== 200) faults.push(`/readyz answers ${ready.status} after the fault`);
  }
  const refusals = Object.fromEntries(load.refusals);
  return { acknowledged: load.acknowledged.length, refusals, recoveryMs, faults };
}
