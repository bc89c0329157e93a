/*
 * The path of one action: sends one intercept over REST and shows what every stage of the spine takes and gives, in the order
 * of README's "The path of one action". `npm run tour` prints it.
 */
import { createHash } from "node:crypto";
import { fromJson } from "@bufbuild/protobuf";
import { expect } from "chai";
import type { Pool, PoolClient } from "pg";
import { pino } from "pino";
import { Registry } from "prom-client";
import type { InterceptRequest } from "../gen/agentcontrol/v1/enforcement_service_pb.js";
import { RuleSchema } from "../gen/agentcontrol/v1/mandate_service_pb.js";
import type { CallContext } from "../src/api/context.ts";
import { createEnforcementService } from "../src/api/enforcement-service.ts";
import { createIntercept } from "../src/decision/intercept.ts";
import type { Decide } from "../src/log/queue.ts";
import { createWorkspaceLogs, type WorkspaceLogs } from "../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../src/log/writer.ts";
import { LongChecker } from "../src/policy/long/checker.ts";
import type { EvaluationContext, PolicyResult } from "../src/policy/types.ts";
import { createHttpServer } from "../src/server/http.ts";
import { Pipeline } from "../src/server/pipeline.ts";
import { createRestTranscoder } from "../src/server/rest/transcoder.ts";
import type { Action, Outcome, SealedDecision } from "../src/state/types.ts";
import type { Database } from "../src/store/database.ts";
import { APPEND_PARAMETERS } from "../src/store/sql/append-entries.ts";
import { SILENT_LOG } from "./support/database.ts";
import { openWorkspace, type TestWorkspace, velocityRule } from "./support/harness.ts";
import { NO_GUARD } from "./support/no-guard.ts";

const MAX_BODY_BYTES = 1_000_000;

/** What one stage took and gave. */
interface Stage {
  readonly file: string;
  readonly takes: unknown;
  readonly gives: unknown;
}

/** The stages of one action, each noted when it has given something. */
class Tour {
  readonly stages = new Map<string, Stage>();

  note(file: string, takes: unknown, gives: unknown): void {
    this.stages.set(file, { file, takes, gives });
  }

  /** The stages from the outermost to the innermost. */
  lines(order: readonly string[]): string[] {
    return order.flatMap((file, index) => {
      const stage = this.stages.get(file);
      return [`${index + 1}  ${file}`, `   takes  ${textOf(stage?.takes)}`, `   gives  ${textOf(stage?.gives)}`, ""];
    });
  }
}

const textOf = (value: unknown): string =>
  JSON.stringify(value, (_, each) => (typeof each === "bigint" ? Number(each) : each), 2)?.replaceAll(
    "\n",
    "\n          ",
  );

/** A pool that notes the statement that appends, with its values and its row. */
function watchedDatabase(database: Database, tour: Tour): Database {
  const watch = <T extends Pool | PoolClient>(target: T): T =>
    new Proxy(target, {
      get(_, name) {
        const value = Reflect.get(target, name) as unknown;
        if (name === "connect") return async () => watch(await database.pool.connect());
        if (name !== "query") return typeof value === "function" ? value.bind(target) : value;
        return async (...args: Parameters<Pool["query"]>) => {
          const [{ name: statement, values }] = args as unknown as [{ name?: string; values?: unknown[] }];
          const result = (await target.query(...args)) as unknown as { readonly rows: unknown[] };
          if (statement === "append-entries") noteAppend(tour, values ?? [], result.rows);
          return result;
        };
      },
    });
  return { ...database, pool: watch(database.pool) };
}

function noteAppend(tour: Tour, values: readonly unknown[], rows: readonly unknown[]): void {
  const given = APPEND_PARAMETERS.flatMap((name, index) => {
    const value = values[index];
    return value === null ? [] : [[name, Buffer.isBuffer(value) ? value.toString("hex") : value] as const];
  });
  tour.note("src/store/sql/append-entries.ts", Object.fromEntries(given), rows);
}

/** The log with notes about what comes into it, what its batch decides, and what comes out. */
function watchedLogs(logs: WorkspaceLogs, tour: Tour): Pick<WorkspaceLogs, "of"> {
  const append = async (log: WorkspaceLog, ...[action, steps, isAbandoned]: Parameters<WorkspaceLog["append"]>) => {
    const set = (await log.caughtUp()).policies.policySet();
    const evaluate = set.evaluate.bind(set);
    Object.assign(set, { evaluate: (context: EvaluationContext) => noteEvaluation(tour, context, evaluate(context)) });
    const decide: Decide = (state, nowMs, journal) => {
      const { seq } = state;
      const trust = state.agents.get(action.agentId)?.trustTenths;
      const outcome = steps.decide(state, nowMs, journal);
      tour.note("src/decision/decide.ts", { state: { seq, trustTenths: trust }, action, nowMs }, shownOutcome(outcome));
      tour.note("src/log/batch.ts", { state: { seq }, items: [action.decisionId] }, { outcomes: [outcome.decision] });
      return outcome;
    };
    const sealed = await log.append(action, { ...steps, decide }, isAbandoned);
    tour.note("src/log/writer.ts", { action, waiting: log.waiting }, sealed);
    return sealed;
  };
  const watched = (log: WorkspaceLog) =>
    ({
      needsOf: (action: Action) => log.needsOf(action),
      append: (...given: Parameters<WorkspaceLog["append"]>) => append(log, ...given),
    }) as WorkspaceLog;
  return { of: async (workspaceId) => watched(await logs.of(workspaceId)) };
}

function noteEvaluation(tour: Tour, context: EvaluationContext, result: PolicyResult): PolicyResult {
  const { agentId, actionType, toolName, arguments: given, trustTenths, nowMs } = context;
  const { decision, reasons, fired, observed, collectiveLimits } = result;
  tour.note(
    "src/policy/evaluate.ts",
    { agentId, actionType, toolName, arguments: given, trustTenths, nowMs },
    { decision, reasons, fired: fired.map(({ mandate }) => mandate.name), observed, collectiveLimits },
  );
  return result;
}

const shownOutcome = ({ policy, tool, ...outcome }: Outcome) => ({
  ...outcome,
  tool: tool?.name,
  policy: policy === undefined ? undefined : "(the result of src/policy/evaluate.ts)",
});

/** The service function and the use-case with notes about what they take and give. */
function watchedEnforcement(logs: WorkspaceLogs, pool: Pool, tour: Tour) {
  const intercept = createIntercept({ logs: watchedLogs(logs, tour), guard: NO_GUARD, checker: new LongChecker() });
  const service = createEnforcementService({
    logs,
    pool,
    heartbeatMs: 60_000,
    observe: async () => {
      throw new Error("the tour observes nothing");
    },
    async intercept(command) {
      const sealed: SealedDecision = await intercept(command);
      tour.note("src/decision/intercept.ts", { workspaceId: command.workspaceId, action: command.action }, sealed);
      return sealed;
    },
  });
  const serve = service.functions.intercept as (request: InterceptRequest, context: CallContext) => Promise<object>;
  const functions = {
    ...service.functions,
    async intercept(request: InterceptRequest, context: CallContext) {
      const response = await serve(request, context);
      tour.note("src/server/pipeline.ts", { request, caller: context.caller }, response);
      return response;
    },
  };
  return { ...service, functions } as typeof service;
}

/** Sends the action to a server of its own and returns the JSON of the reply. */
async function sendIntercept(workspace: TestWorkspace, tour: Tour, body: object): Promise<Record<string, unknown>> {
  const database = watchedDatabase(workspace.database, tour);
  const logs = await createWorkspaceLogs(database, SILENT_LOG);
  const { authenticator, adminKey } = workspace;
  const log = pino({ level: "silent" });
  const metrics = new Registry();
  const services = [watchedEnforcement(logs, database.pool, tour)];
  const pipeline = new Pipeline({ services, authenticate: (key) => authenticator.authenticate(key), log, metrics });
  const rest = createRestTranscoder({ pipeline, maxBodyBytes: MAX_BODY_BYTES });
  const ready = async () => undefined;
  const http = createHttpServer({
    pipeline,
    rest,
    extra: [],
    ready,
    metrics,
    operators: { assertAllowed: async () => undefined },
    openApi: async () => "{}",
    maxBodyBytes: MAX_BODY_BYTES,
    log,
  });
  const port = await http.listen("127.0.0.1", 0);
  try {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/enforce/intercept`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": adminKey },
      body: JSON.stringify(body),
    });
    return (await reply.json()) as Record<string, unknown>;
  } finally {
    await pipeline.drain(0);
    await http.close(0);
    await logs.close();
  }
}

/** The spine, from the wire to the database. */
const SPINE = [
  "src/server/pipeline.ts",
  "src/decision/intercept.ts",
  "src/log/writer.ts",
  "src/log/batch.ts",
  "src/decision/decide.ts",
  "src/policy/evaluate.ts",
  "src/store/sql/append-entries.ts",
];

describe("the path of one action", () => {
  let workspace: TestWorkspace;
  let reply: Record<string, unknown>;
  let body: Record<string, unknown>;
  const tour = new Tour();

  before(async () => {
    workspace = await openWorkspace();
    const input_schema = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] };
    await workspace.tools.registerTool({ name: "payments.transfer", inputSchema: input_schema });
    const cap = fromJson(RuleSchema, {
      tool: "payments.transfer",
      decision: "DECISION_ESCALATE",
      conditions: { rules: [{ field: "amount", operator: ">", value: 500 }] },
    });
    await workspace.mandate([cap, velocityRule(10)], { name: "large payments need a person" });
    body = {
      agent_id: await workspace.agent("payer"),
      action_type: "payments.transfer",
      action_content: "Pay invoice 4711",
      metadata: { arguments: { amount: 750 } },
    };
    reply = await sendIntercept(workspace, tour, body);
  });
  after(() => workspace.close());

  it("passes every stage of the spine.", () => {
    expect([...tour.stages.keys()]).to.have.members(SPINE);
    if (process.env.npm_lifecycle_event !== "tour") return;
    console.log(`\nPOST /v1/enforce/intercept\n${textOf(body)}\n`);
    console.log(tour.lines(SPINE).join("\n"));
    console.log(`200\n${textOf(reply)}`);
  });

  it("is one action from the request to the reply.", () => {
    const given = (file: string) => tour.stages.get(file)?.gives as Record<string, unknown>;
    const taken = (file: string) =>
      tour.stages.get(file)?.takes as { readonly action: Action; readonly state: { readonly seq: number } };
    expect(taken("src/decision/intercept.ts").action).to.include({
      actionType: "payments.transfer",
      isRetryable: false,
    });
    expect(given("src/policy/evaluate.ts")).to.include({ decision: "escalate" });
    expect(given("src/decision/decide.ts")).to.include({ decision: "escalate", path: "policy" });
    expect(given("src/log/writer.ts")).to.include({ path: "policy", seq: taken("src/log/batch.ts").state.seq });
    expect(reply).to.include({ decision: "escalate", policy_name: "large payments need a person", trust_score: 50 });
    expect(reply.decision_id).to.equal(taken("src/log/writer.ts").action.decisionId);
  });

  it("is sealed as the reply says, under the hash of what is stored.", async () => {
    const { pool } = workspace.database;
    const { rows } = await pool.query("select body, leaf_hash from ledger_entry where entry_id = $1", [
      reply.decision_id,
    ]);
    const [entry] = rows as [{ body: string; leaf_hash: Buffer }];
    expect(JSON.parse(entry.body)).to.include({ decision: "escalate", decision_id: reply.decision_id });
    const leafHash = createHash("sha256").update("\u0000").update(entry.body).digest("hex");
    expect(entry.leaf_hash.toString("hex")).to.equal(leafHash);
    expect(tour.stages.get("src/store/sql/append-entries.ts")?.takes).to.include({ leafHashes: leafHash });
  });
});
