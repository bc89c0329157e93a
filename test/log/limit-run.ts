import { randomUUID } from "node:crypto";
import { withOwner } from "../support/owner.ts";
import type { TestServer } from "../support/server.ts";
import { interceptOver, post, type RestOutcome } from "./rest.ts";

/** Result of a run. */
export interface LimitRun {
  /** Answers that allowed. */
  readonly allowed: number;
  /** Milliseconds from the first request to the last answer. */
  readonly ms: number;
  /** Descriptions of the faults; empty when the limit held exactly. */
  readonly faults: readonly string[];
}

/** Settings of a run. */
export interface LimitRunOptions {
  readonly databaseUrl: string;
  /** All that serve; requests go to each in turn. */
  readonly servers: readonly TestServer[];
  readonly agents: number;
  /** Actions, all at once. */
  readonly actions: number;
  /** The agents act for themselves under a limit of the workspace, or all on behalf of one principal under its limit. */
  readonly under: "workspace" | "principal";
  /** Counted by a velocity limit, or paid into a budget, 1 each; then each is claimed, and its success reported at once. */
  readonly counts: "actions" | "amounts";
  /** The most that are allowed. */
  readonly limit: number;
  /** Names the run's actions, so that no other run's count. */
  readonly name: string;
}

async function registerAgent(server: TestServer): Promise<string> {
  type Reply = { readonly agent: { readonly agent_id: string } };
  const { agent } = await post<Reply>(server, "/v1/enforce/agents", { name: "limited" });
  return agent.agent_id;
}

/** The counts or totals that the run's decisions saw, in the order of the log, with what each came to. */
function sealed({ databaseUrl, name }: LimitRunOptions): Promise<{ count: number; decision: string }[]> {
  const select = `select seq::float8 as seq, body from ledger_entry
    where workspace_id = 'default' and action_type = $1 and kind in (0, 2) order by ledger_entry.seq`;
  return withOwner(databaseUrl, async (client) => {
    const { rows } = await client.query<{ seq: number; body: string }>(select, [name]);
    return rows.map(({ body }) => {
      const { decision, authorisation } = JSON.parse(body);
      const [{ count, budget }] = authorisation.collective_limits;
      return { decision, count: budget?.total ?? count };
    });
  });
}

/** Number of calls by refusal, and of calls without an answer. */
function othersText(outcomes: readonly RestOutcome[]): string {
  const names = outcomes.flatMap((outcome) =>
    outcome.kind === "decided" ? [] : [outcome.kind === "refused" ? outcome.reason : outcome.kind],
  );
  const counts = [...new Set(names)].map((name) => `${names.filter((other) => other === name).length} ${name}`);
  return `of the others ${counts.join(", ") || "none"}`;
}

/** Registers a principal and lends its authority to all agents. */
async function lendTo(server: TestServer, agentIds: readonly string[], actionType: string): Promise<string> {
  const principalId = await registerAgent(server);
  const grants = agentIds.map((granteeId) =>
    post(server, "/v1/enforce/grants", {
      grantor_agent_id: principalId,
      grantee_agent_id: granteeId,
      action_types: [actionType],
    }),
  );
  await Promise.all(grants);
  return principalId;
}

const SCHEMA = { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } };

/** The conditions under which a rule limits the run's actions. */
async function limitOf(server: TestServer, { counts, name, limit, under }: LimitRunOptions): Promise<object> {
  const window = { window_seconds: 3_600, scope: under === "principal" ? "agent" : "workspace" };
  if (counts === "actions") return { mode: "velocity", match_action_types: [name], max_count: limit, ...window };
  await post(server, "/v1/enforce/tools", { name, input_schema: SCHEMA });
  return { mode: "budget", sums: [{ tool: name, field: "amount" }], currency: "EUR", max_total: limit, ...window };
}

/** Acts once. Of an amount, the action is claimed, and a success reported; gives what was answered otherwise than it has to be. */
async function act(server: TestServer, { counts, name }: LimitRunOptions, by: object) {
  if (counts === "actions")
    return { outcome: await interceptOver(server, { ...by, action_type: name }), fault: undefined };
  const paid = { tool: name, metadata: { arguments: { amount: 1, currency: "EUR" } }, claim_id: randomUUID() };
  const outcome = await interceptOver(server, { ...by, action_type: name, ...paid });
  if (outcome.kind !== "decided" || outcome.reply.decision !== "allow") return { outcome, fault: undefined };
  const { decision_id, claimed, report_outcome } = outcome.reply;
  if (claimed !== true || report_outcome !== true)
    return { outcome, fault: `${decision_id} is not claimed and tracked` };
  const fault = await post(server, `/v1/enforce/decisions/${decision_id}/outcome`, { status: "succeeded" }).then(
    () => undefined,
    ({ message }: Error) => message,
  );
  return { outcome, fault };
}

/** Has all agents act at once under one limit, and looks at the answers and at the log. */
export async function runLimit(options: LimitRunOptions): Promise<LimitRun> {
  const { servers, agents, actions, under, limit, name } = options;
  const serverAt = (index: number): TestServer => servers[index % servers.length] as TestServer;
  const agentIds = await Promise.all(Array.from({ length: agents }, (_, index) => registerAgent(serverAt(index))));
  const principalId = under === "principal" ? await lendTo(serverAt(0), agentIds, name) : undefined;
  const conditions = await limitOf(serverAt(0), options);
  await post(serverAt(0), "/v1/enforce/mandates", {
    name,
    rules: [{ type: "sequence", decision: "block", conditions }],
    ...(principalId === undefined ? {} : { scope: "agent", agent_id: principalId }),
  });
  const onBehalfOf = principalId === undefined ? {} : { on_behalf_of: principalId };
  const startedAt = performance.now();
  const acts = await Promise.all(
    Array.from({ length: actions }, (_, index) =>
      act(serverAt(index), options, { agent_id: agentIds[index % agents], ...onBehalfOf }),
    ),
  );
  const ms = performance.now() - startedAt;
  const outcomes = acts.map(({ outcome }) => outcome);
  const answered = (decision: string): number =>
    outcomes.filter((outcome) => outcome.kind === "decided" && outcome.reply.decision === decision).length;
  const [allowed, blocked] = [answered("allow"), answered("block")];
  const faults = acts.flatMap(({ fault }) => fault ?? []);
  if (allowed !== limit || blocked !== actions - limit)
    faults.push(`${allowed} were allowed and ${blocked} blocked after ${Math.round(ms)} ms; ${othersText(outcomes)}`);
  const entries = await sealed(options);
  if (entries.length !== actions) faults.push(`the log holds ${entries.length} of ${actions} decisions`);
  // Blocked actions count, but pay nothing.
  const countAt = (index: number): number => 1 + (options.counts === "actions" ? index : Math.min(index, limit));
  const wrong = entries.findIndex(
    ({ count, decision }, index) => count !== countAt(index) || decision !== (index < limit ? "allow" : "block"),
  );
  if (wrong >= 0)
    faults.push(`decision ${wrong} of the log counted ${entries[wrong]?.count} and was ${entries[wrong]?.decision}`);
  return { allowed, ms, faults };
}
