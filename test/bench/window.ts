import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import { createMandate } from "../../src/registry/mandates.ts";
import { registerTools } from "../../src/registry/tools.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { openDatabase } from "../../src/store/database.ts";
import { withOwner } from "../support/owner.ts";
import type { Child } from "./child.ts";
import { type ColdStart, coldStart } from "./cold-start.ts";
import { memoryMib } from "./cpu.ts";
import type { Measured } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import { type BenchPostgres, SILENT_LOG } from "./postgres.ts";
import { type Check, figure, median, tableFrom } from "./report.ts";
import { type BenchWorkspace, planFor } from "./service.ts";
import type { PartReport } from "./throughput.ts";
import { TOOL, TOOL_SCHEMA } from "./workload.ts";

const WORKSPACE = "bench";
const BY = "system";
const AGENTS = 10;
const WINDOW_SECONDS = 86_400;
const FEW = 1_000;
/** Most that a decision may cost more with the large window than with the small one. */
const MOST_DEARER = 1.2;
/** MiB that the process may have more with the large window: what a workspace keeps of its windows, and as much again. */
const MOST_MORE_MIB = 50;
/** MiB of heap, so that what differs is what is kept and not what was not collected yet; five million times are 40 MiB. */
const SMALL_HEAP = { NODE_OPTIONS: "--max-old-space-size=128 --max-semi-space-size=4" };

/** A service whose limit of the workspace has so many actions in its window of a day. */
interface Running {
  readonly actions: number;
  readonly start: ColdStart;
  readonly measured: Measured[];
  memoryMib: number;
}

const limit = (scope: string): JsonObject => ({
  type: "RULE_TYPE_SEQUENCE",
  decision: "DECISION_BLOCK",
  conditions: {
    mode: "SEQUENCE_MODE_VELOCITY",
    match_action_types: ["payment.*"],
    scope,
    max_count: "1000000000",
    window_seconds: String(WINDOW_SECONDS),
  },
});

/*
 * Rows as decisions leave them, but for bodies and hashes, which no window looks at: five million real ones would take
 * longer than everything else of the benchmark. They lie evenly over a day, so that some leave the window all the time.
 */
const FILL = `
  insert into ledger_entry (workspace_id, seq, at_ms, kind, entry_id, agent_id, action_type, decision, leaf_hash, body)
  select $1, h.seq + i, $3::bigint - $4::bigint + (i * $4::bigint) / $2::bigint, 0, 'dec_' || i, 'agt_' || i % 1000,
    'payment.send', 1, decode(repeat('00', 32), 'hex'), repeat('x', 200)
  from ledger_head h, generate_series(0, $2::bigint - 1) i where h.workspace_id = $1`;
const END = `
  update ledger_head set seq = seq + $2::bigint, last_at_ms = $3::bigint,
    frontier = decode(repeat('00', 32 * length(replace((seq + $2::bigint)::bit(64)::text, '0', ''))), 'hex')
  where workspace_id = $1`;
const SNAPSHOT =
  "update workspace set trust_seq = (select seq from ledger_head where workspace_id = $1) where workspace_id = $1";

async function fill(databaseUrl: string, actions: number): Promise<void> {
  await withOwner(databaseUrl, async (client) => {
    await client.query("begin");
    await client.query(FILL, [WORKSPACE, actions, Date.now(), WINDOW_SECONDS * 1000]);
    await client.query(END, [WORKSPACE, actions, Date.now()]);
    await client.query(SNAPSHOT, [WORKSPACE]);
    await client.query("commit");
    await client.query("vacuum analyze ledger_entry");
  });
}

async function addLimits(log: WorkspaceLog): Promise<string[]> {
  const source = ToolSource.API;
  await registerTools(log, BY, [{ name: TOOL, description: "", inputSchema: TOOL_SCHEMA as never, source }]);
  const rules = ["SCOPE_WORKSPACE", "SCOPE_AGENT"].map((scope) => fromJson(RuleSchema, limit(scope)));
  const scope = { scope: "workspace", departmentId: undefined, agentId: undefined } as const;
  await createMandate(
    log,
    { by: BY, note: "" },
    { name: "a day", description: "", ...scope, priority: 0, mode: "enforce", rules },
  );
  const agentIds: string[] = [];
  while (agentIds.length < AGENTS) {
    const told = {
      name: "agent",
      framework: "",
      description: "",
      capabilities: [],
      allowedActionTypes: [],
      deniedActionTypes: [],
    };
    agentIds.push((await registerAgent(log, BY, told)).agentId);
  }
  return agentIds;
}

/** Makes a workspace in which so many actions were decided in the last day. */
async function seedWindow(databaseUrl: string, actions: number): Promise<BenchWorkspace> {
  const options = { poolSize: 3, log: SILENT_LOG };
  const database = await openDatabase({ url: databaseUrl, ...options });
  const nowMs = Date.now() - 2 * WINDOW_SECONDS * 1000;
  const { secret } = await createWorkspace({ database, nowMs, by: BY }, { workspaceId: WORKSPACE });
  await fill(databaseUrl, actions);
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  const agentIds = await addLimits(await logs.of(WORKSPACE));
  await logs.close();
  await database.close();
  return { databaseUrl, apiKey: secret, agentIds };
}

async function prepare(postgres: BenchPostgres, actions: number, cleanup: AsyncDisposableStack): Promise<Running> {
  console.error(`preparing  ${actions.toLocaleString("en")} actions in a window of a day`);
  const workspace = await seedWindow(await postgres.createDatabase(`window_${actions}`), actions);
  const start = await coldStart(workspace, cleanup, SMALL_HEAP);
  console.error(
    `cold start  first decision ${figure(start.firstDecisionMs)} ms, ${figure(start.inWindow)} in the window`,
  );
  return { actions, start, measured: [], memoryMib: Number.NaN };
}

function tableOf(all: readonly Running[]): string {
  const rows = all.map(({ start, measured, memoryMib }) => [
    `${figure(start.inWindow)} actions in the window`,
    figure(median(measured.map(({ p50 }) => p50))),
    figure(median(measured.map(({ p99 }) => p99))),
    figure(start.firstDecisionMs),
    figure(memoryMib),
  ]);
  return tableFrom(["limit over a day", "p50 ms", "p99 ms", "cold start ms", "memory MiB"], rows);
}

/** Whether a limit over a window with millions of actions costs what one over a thousand costs, in time and in memory. */
export async function measureWindow(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const few = await prepare(postgres, FEW, cleanup);
  const many = await prepare(postgres, options.window.actions, cleanup);
  const all = [few, many];
  for (let round = 0; round <= options.rounds; round++) {
    for (const { start, measured, actions } of round % 2 === 0 ? all : all.toReversed()) {
      const { service } = start;
      const source = { kind: "unary", target: service.grpc, callers: 1 } as const;
      const result = await load.ask<Measured>(planFor(source, options.seconds, service, postgres));
      if (round > 0) measured.push(result);
      console.error(`round ${round}  ${actions} actions: p50 ${figure(result.p50)} ms, p99 ${figure(result.p99)} ms`);
    }
  }
  for (const running of all) running.memoryMib = memoryMib(running.start.service.server.pid);
  const ratios = many.measured.map(({ p50 }, round) => p50 / (few.measured[round] as Measured).p50);
  const checks: Check[] = [
    { name: "p50 of a decision with the large window", figures: ratios, bound: { atMost: MOST_DEARER }, unit: "x" },
    {
      name: "memory that the large window takes",
      figures: [many.memoryMib - few.memoryMib],
      bound: { atMost: MOST_MORE_MIB },
      unit: "MiB",
    },
  ];
  return { text: tableOf(all), checks };
}
