import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Draws, drawsFrom } from "../log/linearisable-rules.ts";
import { post } from "../log/rest.ts";
import { readLog, type StoredLog } from "../log/stored-log.ts";
import { freePort } from "../support/free-port.ts";
import { seededBelow } from "../support/seeded-below.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { createFireWorkspace, registerAgents } from "./agents.ts";
import {
  budgetsFor,
  type ClientJob,
  drawPayment,
  type JournalLine,
  PAYMENT_SCHEMA,
  PAYMENT_TOOLS,
  type PaymentBudget,
  type PaymentPlan,
} from "./payment-plans.ts";
import type { PaidRound } from "./payments-log.ts";

/** Size of a round. */
export interface PaymentsSize {
  readonly payments: number;
  /** Processes of the fleet that serve the round. */
  readonly processes: number;
  readonly clients: number;
  /** Milliseconds within which payments begin. */
  readonly spreadMs: number;
  readonly clientKills: number;
  readonly serverKills: number;
}

/** Log of a round, and what its reader knows of it otherwise. */
export interface PlayedRound {
  readonly log: StoredLog;
  readonly round: PaidRound;
}

/** Processes of the service on one database, each at an address of its own that outlives kills. */
export interface PaymentFleet {
  readonly databaseUrl: string;
  readonly servers: readonly TestServer[];
  /** Ends a process in the middle of whatever it does, and starts it again. */
  killAndRestart(index: number): Promise<void>;
}

const AGENTS = 20;
const OUTCOME_TIMEOUT_SECONDS = 3;
/** Payments of ten that two clients make at once. */
const SHARED_OF_TEN = 2;
/** Milliseconds after which a client, or the end of pending outcomes, is no longer waited for. */
const LIMIT_MS = 240_000;
const POLL_MS = 100;
/** Outcomes that became unknown and that an operator settles afterwards. */
const SETTLED = 5;

/** Starts a fleet; everything is gone after `cleanup`. */
export async function startPaymentFleet(
  databaseUrl: string,
  processes: number,
  cleanup: AsyncDisposableStack,
  more: Readonly<Record<string, string>> = {},
): Promise<PaymentFleet> {
  const adminKey = randomBytes(24).toString("base64url");
  const ports = await Promise.all(Array.from({ length: processes }, freePort));
  const start = (port: number): Promise<TestServer> => {
    const env = { ACP_ADMIN_KEY: adminKey, ACP_LOG_LEVEL: "error", ACP_HTTP_PORT: String(port), ...more };
    return startServer({ databaseUrl, env });
  };
  const servers = await Promise.all(ports.map(start));
  cleanup.defer(async () => void (await Promise.all(servers.map((server) => server.kill()))));
  return {
    databaseUrl,
    servers,
    async killAndRestart(index) {
      await servers[index]?.kill();
      servers[index] = await startAgain(() => start(ports[index] as number));
    },
  };
}

const STARTS = 6;

/** Starts as a supervisor does: again after a fault. On a busy machine a start may find no connection to the database in time. */
async function startAgain(start: () => Promise<TestServer>, left = STARTS): Promise<TestServer> {
  try {
    return await start();
  } catch (error) {
    if (left <= 1) throw error;
    return startAgain(start, left - 1);
  }
}

interface PaymentWorkspace {
  readonly workspaceId: string;
  readonly adminKey: string;
  readonly agentKey: string;
  readonly agentIds: readonly string[];
  readonly departments: ReadonlyMap<string, readonly string[]>;
  readonly budgets: readonly PaymentBudget[];
}

const ruleOf = ({ decision, tools, scope, departmentId, windowSeconds, maxTotal }: PaymentBudget): object => ({
  type: "sequence",
  decision,
  conditions: {
    mode: "budget",
    sums: tools.map((tool) => ({ tool, field: "amount" })),
    currency: "EUR",
    max_total: maxTotal,
    window_seconds: windowSeconds,
    scope,
    ...(departmentId !== undefined && { department_id: departmentId }),
  },
});

/** Creates a workspace with agents, two departments that share some of them, and budgets for so many payments. */
async function createPaymentWorkspace(
  server: TestServer,
  workspaceId: string,
  payments: number,
): Promise<PaymentWorkspace> {
  const settings = { outcome_timeout_seconds: OUTCOME_TIMEOUT_SECONDS, max_pending_escalations_per_agent: 20 };
  const { apiKey: adminKey } = await createFireWorkspace(server, workspaceId, settings);
  const admin = { http: server.http, adminKey };
  const agents = await registerAgents(admin, AGENTS);
  const agentIds = agents.map(({ agentId }) => agentId);
  for (const name of PAYMENT_TOOLS) await post(admin, "/v1/enforce/tools", { name, input_schema: PAYMENT_SCHEMA });
  const departments = new Map<string, readonly string[]>();
  for (const divisor of [2, 3]) {
    type Founded = { readonly department: { readonly department_id: string } };
    const { department } = await post<Founded>(admin, "/v1/enforce/departments", { name: `team ${divisor}` });
    const members = agentIds.filter((_, index) => index % divisor === 0);
    const path = `/v1/enforce/departments/${department.department_id}/members`;
    await Promise.all(members.map((agentId) => post(admin, `${path}/${agentId}`, {}, "PUT")));
    departments.set(department.department_id, members);
  }
  const budgets = budgetsFor(payments, [...departments.keys()]);
  for (const budget of budgets) {
    await post(admin, "/v1/enforce/mandates", { name: budget.name, rules: [ruleOf(budget)] });
  }
  const { secret: agentKey } = await post<{ secret: string }>(admin, "/v1/admin/keys", {
    name: "payer",
    role: "agent",
  });
  return { workspaceId, adminKey, agentKey, agentIds, departments, budgets };
}

/** A client's process with its job, which a successor takes over from the beginning. */
class Crew {
  readonly #jobs: readonly ClientJob[];
  readonly #lanes: { child: ChildProcess; ended: Promise<unknown> }[];

  constructor(jobs: readonly ClientJob[]) {
    this.#jobs = jobs;
    this.#lanes = jobs.map((job) => this.#start(job));
  }

  /** True once every client has done its job. */
  get isDone(): boolean {
    return this.#lanes.every(({ child }) => child.exitCode !== null);
  }

  /** Kills a client, and starts another one that makes the same payments without knowing how far the first one came. */
  async killAndReplace(index: number): Promise<void> {
    const lane = this.#lanes[index];
    if (lane === undefined) return;
    lane.child.kill("SIGKILL");
    await lane.ended;
    this.#lanes[index] = this.#start(this.#jobs[index] as ClientJob);
  }

  /** Waits until all are done. */
  async finish(): Promise<void> {
    await Promise.all(this.#lanes.map(({ ended }) => ended));
  }

  /** Ends those that are left. */
  kill(): void {
    for (const { child } of this.#lanes) child.kill("SIGKILL");
  }

  #start(job: ClientJob) {
    const child = fork(join(import.meta.dirname, "paying-client.ts"), { serialization: "advanced" });
    child.send(job);
    return { child, ended: once(child, "exit") };
  }
}

async function disturb(fleet: PaymentFleet, crew: Crew, size: PaymentsSize, { below, chance }: Draws): Promise<void> {
  let [clientKills, serverKills] = [size.clientKills, size.serverKills];
  while (!crew.isDone && clientKills + serverKills > 0) {
    await delay(100 + below(size.spreadMs / 4));
    if (clientKills > 0 && (serverKills === 0 || chance(60))) {
      clientKills -= 1;
      await crew.killAndReplace(below(size.clients));
    } else if (serverKills > 0) {
      serverKills -= 1;
      await fleet.killAndRestart(below(size.processes));
    }
  }
}

type Listed = { readonly decisions: readonly { readonly decision_id: string }[] };

async function decisionsWith(
  admin: Pick<TestServer, "http" | "adminKey">,
  outcome: string,
): Promise<readonly string[]> {
  const response = await fetch(`${admin.http}/v1/enforce/decisions?outcome=${outcome}&page_size=${SETTLED}`, {
    headers: { "x-api-key": admin.adminKey },
  });
  if (!response.ok) throw new Error(await response.text());
  return ((await response.json()) as Listed).decisions.map(({ decision_id }) => decision_id);
}

/** Waits until no outcome is pending, or so long that the reader of the log tells of it; then an operator settles some. */
async function settle(admin: Pick<TestServer, "http" | "adminKey">, { pick }: Draws): Promise<void> {
  const endsAt = performance.now() + LIMIT_MS;
  while ((await decisionsWith(admin, "pending")).length > 0 && performance.now() < endsAt) await delay(POLL_MS);
  for (const decisionId of await decisionsWith(admin, "unknown")) {
    const status = pick(["succeeded", "failed", "cancelled"]);
    await post(admin, `/v1/enforce/decisions/${decisionId}/outcome`, { status });
  }
}

async function journalFrom(path: string): Promise<JournalLine[]> {
  const text = await readFile(path, "utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as JournalLine);
}

/** Deals the payments to clients, some of them to two. */
function dealt(draws: Draws, plans: readonly PaymentPlan[], clients: number): readonly (readonly PaymentPlan[])[] {
  const hands = Array.from({ length: clients }, (): PaymentPlan[] => []);
  for (const [index, plan] of plans.entries()) {
    hands[index % clients]?.push(plan);
    if (draws.below(10) < SHARED_OF_TEN) hands[(index + 1) % clients]?.push(plan);
  }
  return hands;
}

/** Has clients pay under budgets while some of them and of the servers are killed, and waits until every outcome is known or unknown. */
export async function playPayments(fleet: PaymentFleet, seed: number, size: PaymentsSize): Promise<PlayedRound> {
  await using cleanup = new AsyncDisposableStack();
  const draws = drawsFrom(seededBelow(seed));
  const [first] = fleet.servers as [TestServer];
  const workspaceId = `payments-${seed}-${randomBytes(4).toString("hex")}`;
  const workspace = await createPaymentWorkspace(first, workspaceId, size.payments);
  const { adminKey, agentKey, agentIds, departments, budgets } = workspace;
  const folder = await mkdtemp(join(tmpdir(), "acp-payments-"));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const journal = join(folder, "journal");
  const plans = Array.from({ length: size.payments }, () => drawPayment(draws, agentIds, size.spreadMs));
  const servers = fleet.servers.slice(0, size.processes).map(({ http }) => http);
  const known = { servers, agentKey, adminKey, journal, limitMs: LIMIT_MS };
  const crew = new Crew(dealt(draws, plans, size.clients).map((own) => ({ ...known, plans: own })));
  cleanup.defer(() => crew.kill());
  await disturb(fleet, crew, size, draws);
  await crew.finish();
  await settle({ http: servers[0] as string, adminKey }, draws);
  const log = await readLog(fleet.databaseUrl, workspaceId);
  return { log, round: { budgets, departments, journal: await journalFrom(journal) } };
}
