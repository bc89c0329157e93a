import { randomUUID } from "node:crypto";
import { Agent } from "node:http";
import { create } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import { decideInTurn } from "../../src/dryrun/decide-in-turn.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import type { Action } from "../../src/state/types.ts";
import { openDatabase } from "../../src/store/database.ts";
import { post } from "../log/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import type { Child } from "./child.ts";
import { callRest } from "./clients.ts";
import type { Target } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import { type BenchPostgres, SILENT_LOG } from "./postgres.ts";
import { type Check, figure, median, rangeOf, tableFrom } from "./report.ts";
import type { PartReport } from "./throughput.ts";
import { TOOL, TOOL_SCHEMA } from "./workload.ts";

/** Single rounds differ by more than the bounds are away from 1. */
const ROUNDS = 9;
const AGENTS = 100;
const CALLERS = 32;
/** Calls of each kind in a round, for each second of `--seconds`. */
const CALLS_A_SECOND = 500;
/** Actions that are decided in process, one after the other. */
const IN_PROCESS = 5_000;
const ACTION_TYPE = "payment.send";

/** One limit that every action is under; neither is ever reached. */
const LIMITS = {
  velocity: { mode: "velocity", match_action_types: ["payment.*"], max_count: 1_000_000_000 },
  budget: { mode: "budget", sums: [{ tool: TOOL, field: "amount" }], currency: "EUR", max_total: 999_999_999 },
} as const;

/** Kinds of calls, in the order of a round. Reports are of the actions that were claimed right before. */
const KINDS = ["velocity", "budget", "plain", "claimed", "report"] as const;
type Kind = (typeof KINDS)[number];

const NAMES: Readonly<Record<Kind, string>> = {
  velocity: "intercept with a velocity limit",
  budget: "intercept with a budget",
  plain: "intercept without a limit",
  claimed: "intercept with a claim",
  report: "report of an outcome",
};

/** A workspace under one limit, or none. */
async function createUnder(server: TestServer, workspaceId: string, limit: object | undefined): Promise<Target> {
  const { secret } = await post<{ secret: string }>(server, "/v1/admin/workspaces", { workspace_id: workspaceId });
  const admin = { http: server.http, adminKey: secret };
  await post(admin, "/v1/enforce/tools", { name: TOOL, input_schema: TOOL_SCHEMA });
  const agentIds: string[] = [];
  while (agentIds.length < AGENTS) {
    type Reply = { readonly agent: { readonly agent_id: string } };
    const { agent } = await post<Reply>(admin, "/v1/enforce/agents", { name: "agent" });
    agentIds.push(agent.agent_id);
  }
  const conditions = { ...limit, window_seconds: 3_600, scope: "workspace" };
  const rules = [{ type: "sequence", decision: "block", conditions }];
  if (limit !== undefined) await post(admin, "/v1/enforce/mandates", { name: "limit", rules });
  return { address: new URL(server.http).host, apiKey: secret, agentIds };
}

function bodyOf({ agentIds }: Target, index: number, claimId?: string): string {
  return JSON.stringify({
    agent_id: agentIds[index % agentIds.length],
    action_type: ACTION_TYPE,
    action_content: `Pay invoice ${index}`,
    tool: TOOL,
    metadata: { arguments: { amount: 20 + (index % 400) / 100, currency: "EUR", recipient: { name: "Supplier" } } },
    ...(claimId !== undefined && { claim_id: claimId }),
  });
}

/** Makes calls of so many callers, each after its own before. Gives milliseconds a call, and the replies. */
async function timed(count: number, call: (index: number) => Promise<string>) {
  const replies: string[] = [];
  let next = 0;
  const startedAt = performance.now();
  const caller = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) replies[index] = await call(index);
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return { ms: (performance.now() - startedAt) / count, replies };
}

type Targets = Readonly<Record<"velocity" | "budget" | "plain", Target>>;

/** Measures every kind once, in this order or the other way round; a report always follows its claim. */
async function measureRound(targets: Targets, agent: Agent, count: number, isTurned: boolean) {
  const times: Partial<Record<Kind, number>> = {};
  const intercept = async (kind: Kind, target: Target, withClaim: boolean): Promise<readonly string[]> => {
    const bodies = Array.from({ length: count }, (_, index) =>
      bodyOf(target, index, withClaim ? randomUUID() : undefined),
    );
    const { ms, replies } = await timed(count, (index) => callRest(target, agent, bodies[index] as string));
    times[kind] = ms;
    return replies;
  };
  const claimAndReport = async (): Promise<void> => {
    const replies = await intercept("claimed", targets.plain, true);
    const decided = replies.map((reply) => JSON.parse(reply) as { decision_id: string; claimed: boolean });
    if (!decided.every(({ claimed }) => claimed)) throw new Error("an action was not claimed");
    const body = JSON.stringify({ status: "succeeded" });
    const pathOf = (index: number): string => `/v1/enforce/decisions/${decided[index]?.decision_id}/outcome`;
    times.report = (await timed(count, (index) => callRest(targets.plain, agent, body, pathOf(index)))).ms;
  };
  const steps = [
    () => intercept("velocity", targets.velocity, false),
    () => intercept("budget", targets.budget, false),
    () => intercept("plain", targets.plain, false),
    claimAndReport,
  ];
  for (const step of isTurned ? steps.toReversed() : steps) await step();
  return times as Readonly<Record<Kind, number>>;
}

/** Microseconds of the processor to decide and fold all actions, without a database. */
function timeInProcess(log: WorkspaceLog, actions: readonly Action[]): Promise<number> {
  return log.dryRun(actions.slice(0, AGENTS), (state, nowMs) => {
    const before = process.threadCpuUsage();
    for (const _ of decideInTurn(state, actions, nowMs));
    return process.threadCpuUsage(before).user;
  });
}

/** Times of both limits in process, in turns: the ratio of each round. */
async function measureInProcess(databaseUrl: string, targets: Targets): Promise<readonly number[]> {
  const database = await openDatabase({ url: databaseUrl, poolSize: 3, log: SILENT_LOG });
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  const sides = await Promise.all(
    (["velocity", "budget"] as const).map(async (workspaceId) => {
      const target = targets[workspaceId];
      const caller = { keyId: "bench", workspaceId, role: Role.ADMIN, agentId: null };
      const actions = Array.from({ length: IN_PROCESS }, (_, index) => {
        const { agent_id, action_type, action_content, tool, metadata } = JSON.parse(bodyOf(target, index));
        const more = { agentId: agent_id, actionType: action_type, actionContent: action_content };
        return actionFrom(create(InterceptRequestSchema, { ...more, tool, metadata }), caller);
      });
      return { log: await logs.of(workspaceId), actions };
    }),
  );
  const ratios: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const times: number[] = [];
    for (const side of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const { log, actions } = sides[side] as (typeof sides)[number];
      times[side] = await timeInProcess(log, actions);
    }
    const [velocity = Number.NaN, budget = Number.NaN] = times;
    if (round > 0) ratios.push(budget / velocity);
  }
  await logs.close();
  await database.close();
  return ratios;
}

function checksOf(rounds: readonly Readonly<Record<Kind, number>>[], inProcess: readonly number[]): readonly Check[] {
  const ratios = (kind: Kind, to: Kind): readonly number[] => rounds.map((times) => times[kind] / times[to]);
  const check = (name: string, figures: readonly number[], atMost: number): Check => {
    return { name, figures, bound: { atMost }, unit: "x" };
  };
  return [
    check("intercept with a budget / with a velocity limit", ratios("budget", "velocity"), 1.15),
    check("the same in process, without a database", inProcess, 1.5),
    check("intercept with a claim / without", ratios("claimed", "plain"), 1.05),
    check("report / intercept", ratios("report", "plain"), 1.2),
  ];
}

/** What budgets, claims and reports cost beside what was there before them. */
export async function measureBudgets(
  { seconds }: BenchOptions,
  postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const databaseUrl = await postgres.createDatabase("budgets");
  const server = await startServer({ databaseUrl, env: { ACP_LOG_LEVEL: "warn" } });
  cleanup.defer(async () => void (await server.stop()));
  const targets: Targets = {
    velocity: await createUnder(server, "velocity", LIMITS.velocity),
    budget: await createUnder(server, "budget", LIMITS.budget),
    plain: await createUnder(server, "plain", undefined),
  };
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  cleanup.defer(() => agent.destroy());
  const rounds: Readonly<Record<Kind, number>>[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const times = await measureRound(targets, agent, Math.ceil(CALLS_A_SECOND * seconds), round % 2 === 1);
    // The first round is not kept: it is there for the compilers of both processes.
    if (round > 0) rounds.push(times);
    console.error(`round ${round}  ${KINDS.map((kind) => `${kind} ${figure(times[kind])} ms`).join("  ")}`);
  }
  const checks = checksOf(rounds, await measureInProcess(databaseUrl, targets));
  const rows = KINDS.map((kind) => {
    const own = rounds.map((times) => times[kind]);
    return [NAMES[kind], figure(median(own)), rangeOf(own)];
  });
  return { text: tableFrom([`REST, ${CALLERS} callers`, "ms a call", "of all rounds"], rows), checks };
}
