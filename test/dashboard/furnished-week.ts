import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { AdminService } from "../../gen/agentcontrol/v1/admin_service_pb.js";
import { DryRunService } from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { startToolsServer, type ToolsServer, tool } from "../gateway/tools-server.ts";
import { until } from "../support/harness.ts";
import { ownedBy } from "../support/owned-key.ts";
import { connect, registerAgent, type TestService } from "../support/service.ts";
import { type Dashboard, openDashboard } from "./browser.ts";
import { equippedAgent } from "./equipped-agent.ts";
import { type SeededWeek, seedWeek } from "./seed-week.ts";

const WORKSPACE = "acme";

/** A dashboard over a seeded week, with something on every screen. */
export interface FurnishedWeek {
  readonly dashboard: Dashboard;
  readonly week: SeededWeek;
  /** Key of the administrator of a workspace in which nothing is. */
  readonly emptyKey: string;
  /** Ids of things whose pages are looked at. */
  readonly ids: WeekIds;
  close(): Promise<void>;
}

/** Ids of one thing of each kind in a furnished week. */
export interface WeekIds {
  /** Pending escalation of a payment with a list of objects. */
  readonly pending: string;
  /** Pending escalation that one of two people has approved. */
  readonly approvals: string;
  /** Escalation that a person rejected with a note. */
  readonly rejected: string;
  readonly allowed: string;
  /** Decision that completed a sequence within a session. */
  readonly blocked: string;
  readonly escalated: string;
  /** Session of these three, with a plan, a prompt and a result. */
  readonly session: string;
  /** Decision of a payment that came to less than it had reserved. */
  readonly reported: string;
  /** Agent with authority of every kind. */
  readonly equipped: string;
  /** Revoked agent. */
  readonly revoked: string;
  readonly department: string;
  /** Mandate with two versions and generated tests. */
  readonly mandate: string;
  /** Mandate that only observes. */
  readonly observing: string;
  readonly webhook: string;
  /** Change of a mandate that waits for others. */
  readonly proposal: string;
  /** Kept backtest of a draft. */
  readonly backtest: string;
  /** Person who was added and has not signed in. */
  readonly person: string;
}

type Rest = (request: string, body?: object, key?: string) => Promise<Record<string, never>>;

/** Opens the dashboard over a week with sessions, servers, lists, webhooks and a revocation. */
export async function openFurnishedWeek(): Promise<FurnishedWeek> {
  await using cleanup = new AsyncDisposableStack();
  const env = { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_WEBHOOK_ALLOW: "127.0.0.0/8" };
  const dashboard = await openDashboard({ env });
  cleanup.defer(() => dashboard.close());
  const { service } = dashboard;
  const week = await seedWeek({ databaseUrl: service.database.url, workspaceId: WORKSPACE });
  const admin = connect({ http: service.http, grpc: service.grpc, adminKey: week.apiKey });
  cleanup.defer(() => admin.close());
  const acme: TestService = {
    ...service,
    admin,
    rest: (request, body, key = week.apiKey) => service.rest(request, body, key),
    agent: (name) => registerAgent(admin, name),
  };
  const upstream = await startToolsServer([
    tool("transfer", { description: "Moves money between two accounts of the bank" }),
    tool("balance"),
    tool("statements"),
  ]);
  cleanup.defer(() => upstream.close());
  const { rest } = acme;
  await addServers(rest, upstream);
  const decisions = await addDecisions(acme, week);
  const mandates = await addMandates(rest);
  const reported = await addOutcomes(rest, week);
  const equipped = await equippedAgent(acme, "closing-bot");
  const revoked = await addRevocation(acme);
  const webhook = await addWebhooks(rest);
  const added = await rest("POST /v1/admin/people", { name: "Ada Approver", role: "operator" });
  const { person } = added as unknown as { readonly person: { readonly person_id: string } };
  const { departments } = (await rest("GET /v1/enforce/departments")) as unknown as {
    readonly departments: readonly { readonly department_id: string }[];
  };
  const key = { name: "night shift", role: Role.OPERATOR, owner: "Ann Lee", ttlSeconds: 86_400n };
  await admin.client(AdminService).createApiKey(key);
  const department = departments[0]?.department_id ?? "";
  const approvals = await addApprovals(acme);
  const ids = {
    approvals,
    ...(await waitingAndAnswered(rest)),
    ...decisions,
    ...mandates,
    reported,
    equipped,
    revoked,
    webhook,
    person: person.person_id,
    department,
    backtest: await addBacktest(admin),
    proposal: await addProposals(acme, mandates.mandate),
  };
  const empty = await service.rest("POST /v1/admin/workspaces", { workspace_id: "empty", name: "Empty" });
  const { secret: emptyKey } = empty as unknown as { readonly secret: string };
  const running = cleanup.move();
  return { dashboard, week, emptyKey, ids, close: () => running.disposeAsync() };
}

/** Tries a draft on the past, and keeps it; gives its id. */
async function addBacktest(admin: TestService["admin"]): Promise<string> {
  const rules = [
    { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["payments.*", "crm.*"] } },
  ];
  const question = { drafts: [{ name: "Payments ask a person", rules }], onlyDrafts: true, keep: true };
  let id = "";
  for await (const { report } of admin.client(DryRunService).backtest(question)) id = report?.backtestId ?? id;
  return id;
}

/** Lets two others review changes, and proposes one of a mandate and one of a list. */
async function addProposals({ rest, http }: TestService, mandateId: string): Promise<string> {
  const ann = await ownedBy("Ann Lee", { http, rest });
  const { mandate } = (await rest(`GET /v1/enforce/mandates/${mandateId}`)) as unknown as {
    readonly mandate: { readonly name: string; readonly description: string; readonly rules: readonly object[] };
  };
  await rest(`PATCH /v1/admin/workspaces/${WORKSPACE}`, { mandate_reviews: 2 });
  await ann("PUT /v1/enforce/lists/partner-hosts", { kind: "host", values: ["bank.example.com", "*.partner.example"] });
  const rules = [...mandate.rules, { type: "trust", decision: "block", conditions: { below: 30 } }];
  const change = {
    name: mandate.name,
    description: mandate.description,
    rules,
    note: "agreed with the auditors in November",
  };
  const { proposal } = (await ann(`PUT /v1/enforce/mandates/${mandateId}`, change)) as unknown as {
    readonly proposal: { readonly proposal_id: string };
  };
  return proposal.proposal_id;
}

/** Adds a server whose definitions were accepted but for a new and a changed one, and one that does not answer. */
async function addServers(rest: Rest, upstream: ToolsServer): Promise<void> {
  await rest("POST /v1/enforce/mcp-servers", { name: "bank", url: upstream.url, mode: "quarantine" });
  await rest("POST /v1/enforce/mcp-servers/bank:refresh", {});
  for (const name of ["transfer", "balance"]) {
    await rest(`POST /v1/enforce/mcp-servers/bank/tools/${name}:accept`, { version: 1 });
  }
  upstream.tools = upstream.tools.map((each) =>
    each.name === "transfer"
      ? tool("transfer", { description: "Moves money to any account, also of other banks" })
      : each,
  );
  await rest("POST /v1/enforce/mcp-servers/bank:refresh", {});
  const gone = await startToolsServer([tool("search")]);
  await rest("POST /v1/enforce/mcp-servers", { name: "wiki", url: gone.url, mode: "open" });
  await gone.close();
  await rest("POST /v1/enforce/mcp-servers/wiki:refresh", {}).catch(() => undefined);
}

/** Adds an allowed, a blocked and an escalated decision in one session, and a sequence of which one step is left. */
async function addDecisions(
  { rest }: TestService,
  { agents }: SeededWeek,
): Promise<Pick<WeekIds, "allowed" | "blocked" | "escalated" | "session">> {
  const [agent, other] = [agents[1]?.agentId, agents[2]?.agentId];
  const { session } = (await rest("POST /v1/enforce/sessions", {
    agent_id: agent,
    purpose: "refunds of this morning",
  })) as unknown as { readonly session: { readonly session_id: string } };
  const act = async (agentId: string | undefined, name: string, args: object, sessionId?: string): Promise<string> => {
    const made: { readonly decision_id?: string } = await rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: name,
      tool: name,
      action_content: `Calls ${name}`,
      metadata: { arguments: args },
      ...(sessionId !== undefined && { session_id: sessionId }),
    });
    return made.decision_id ?? "";
  };
  const id = session.session_id;
  const observations = `POST /v1/enforce/sessions/${id}/observations`;
  await rest(observations, { source: "prompt", content: "Refund A-10412 and A-10413, which arrived broken" });
  await rest("POST /v1/enforce/intent-contracts", {
    agent_id: agent,
    session_id: id,
    goal: "refund what arrived broken this morning",
    steps: [{ tool: "refunds.create", max_calls: 2 }, { tool: "refunds.list" }],
    outside: "rules",
  });
  const allowed = await act(agent, "refunds.create", { amount: 45.5, order: "A-10412", reason: "arrived broken" }, id);
  const read = await act(agent, "secrets.read", { name: "smtp" }, id);
  await rest(observations, { source: "result", decision_id: read, content: "smtp.example.com:587" });
  const blocked = await act(agent, "http.post", { url: "https://partner.example/orders" }, id);
  const escalated = await act(agent, "refunds.create", { amount: 480, order: "A-10413", reason: "never came" }, id);
  await act(other, "secrets.read", { name: "crm" });
  return { allowed, blocked, escalated, session: id };
}

/** Adds a budget that is nearly used up, a payment that was reported, and two whose outcomes are unknown. Gives the reported one. */
async function addOutcomes(rest: Rest, { agents }: SeededWeek): Promise<string> {
  await rest("POST /v1/enforce/mandates", {
    name: "Payments of a day",
    rules: [
      {
        type: "sequence",
        decision: "escalate",
        conditions: {
          mode: "budget",
          sums: [{ tool: "payments.transfer", field: "amount" }],
          currency: "EUR",
          max_total: 5_000,
          window_seconds: 86_400,
        },
      },
    ],
  });
  const agentId = agents[4]?.agentId;
  const pay = async (amount: number, recipient: string): Promise<string> => {
    const args = { amount, currency: "EUR", recipient };
    const made = await rest("POST /v1/enforce/intercept", {
      agent_id: agentId,
      action_type: "payments.transfer",
      tool: "payments.transfer",
      metadata: { arguments: args },
    });
    return made.decision_id ?? "";
  };
  const timeLimit = (seconds: number) =>
    rest(`PATCH /v1/admin/workspaces/${WORKSPACE}`, { outcome_timeout_seconds: seconds });
  const reported = await pay(1_900, "Nordwind GmbH");
  await rest(`POST /v1/enforce/decisions/${reported}/outcome`, { status: "succeeded", amount: 1_849.5 });
  await timeLimit(1);
  for (const recipient of ["Kestrel Foods", "Lumen Energy"]) await pay(1_480, recipient);
  await timeLimit(3_600);
  await until(async () => {
    const { decisions } = (await rest("GET /v1/enforce/decisions?outcome=unknown")) as unknown as {
      readonly decisions: readonly object[];
    };
    return decisions.length === 2;
  });
  return reported;
}

/** Adds a list, a mandate that names it and has two versions, and one that observes. */
async function addMandates(rest: Rest): Promise<Pick<WeekIds, "mandate" | "observing">> {
  const names = ["Hollow Ltd", "Grey Harbour Trading", "Second Lease & Co"];
  await rest("PUT /v1/enforce/lists/blocked-recipients", { kind: "text", values: names });
  const hosts = Array.from({ length: 60 }, (_, at) => `partner-${at + 1}.example`);
  await rest("PUT /v1/enforce/lists/partner-hosts", { kind: "host", values: ["*.corp.example", ...hosts] });
  const mandate = (name: string, decision: string, rule: object, mode = "enforce") => ({
    name,
    description: "Payments that people asked about in the last quarter.",
    mode,
    rules: [{ tool: "payments.transfer", decision, conditions: { rules: [rule] } }],
  });
  const listed = { field: "recipient", operator: "in_list", value: "blocked-recipients" };
  const create = async (draft: object): Promise<string> => {
    const made = await rest("POST /v1/enforce/mandates", draft);
    return (made as unknown as { mandate: { mandate_id: string } }).mandate.mandate_id;
  };
  const id = await create(mandate("Known recipients", "escalate", listed));
  await rest(`PUT /v1/enforce/mandates/${id}`, mandate("Known recipients", "block", listed));
  await rest(`POST /v1/enforce/mandates/${id}/tests`, {});
  const large = { field: "amount", operator: ">", value: 1_000 };
  return { mandate: id, observing: await create(mandate("Smaller payments", "escalate", large, "observe")) };
}

async function addRevocation({ rest, agent }: TestService): Promise<string> {
  const id = await agent("stray-bot");
  for (const purpose of ["invoices", "refunds"]) await rest("POST /v1/enforce/sessions", { agent_id: id, purpose });
  await rest(`POST /v1/enforce/agents/${id}/revoke`, { reason: "It paid an invoice twice." });
  return id;
}

/** Adds two groups, and a contract that one of two people in the first has approved. Gives its escalation. */
async function addApprovals({ rest, agent }: TestService): Promise<string> {
  await rest("PUT /v1/enforce/approver-groups/finance", {
    description: "Payments and contracts above 1,000 EUR",
    members: ["Ann Lee", "Bo Chen", "oidc:https://id.example/tenant|248289761001"],
    oidc_groups: [{ issuer: "https://id.example/tenant", group: "finance-leads" }],
    deputies: ["Cleo Diaz"],
  });
  await rest("PUT /v1/enforce/approver-groups/legal", { members: ["Dan Eriksen"] });
  const decides = { type: "action", decision: "escalate", conditions: { match_action_types: ["contract.sign"] } };
  await rest("POST /v1/enforce/mandates", {
    name: "Contracts need two of finance",
    rules: [
      { ...decides, approvers: { groups: ["finance"], at_least: 2, remind_after_seconds: 86_400 } },
      { ...decides, approvers: { groups: ["finance", "legal"] } },
    ],
  });
  const asked = {
    agent_id: await agent("contract-bot"),
    action_type: "contract.sign",
    action_content: "Lease, 5 years",
  };
  const { escalation_id: id = "" } = await rest("POST /v1/enforce/intercept", asked);
  const { secret } = await rest("POST /v1/admin/keys", { name: "approvals", role: "operator", owner: "Ann Lee" });
  const answer = { resolution: "approved", note: "Checked with the landlord." };
  await rest(`POST /v1/enforce/escalations/${id}/resolve`, answer, secret);
  return id;
}

/** Adds a webhook whose deliveries fail, and one for redaction. */
async function addWebhooks(rest: Rest): Promise<string> {
  const events = ["agent.revoked", "escalation.created", "decision.blocked"];
  const made = await rest("POST /v1/enforce/webhooks", { url: "http://127.0.0.1:9/hooks/agents", events });
  const { webhook } = made as unknown as { readonly webhook: { readonly webhook_id: string } };
  await rest(`POST /v1/enforce/webhooks/${webhook.webhook_id}:test`, {}).catch(() => undefined);
  await rest(`POST /api/redact/${WORKSPACE}/webhooks`, { url: "http://127.0.0.1:9/hooks/leaks" });
  return webhook.webhook_id;
}

interface Escalated {
  readonly escalation_id: string;
  readonly tool: string;
}

async function waitingAndAnswered(rest: Rest): Promise<Pick<WeekIds, "pending" | "rejected">> {
  const first = async (status: string, isWanted: (each: Escalated) => boolean): Promise<string> => {
    const { escalations } = (await rest(`GET /v1/enforce/escalations?status=${status}&page_size=100`)) as unknown as {
      readonly escalations: readonly Escalated[];
    };
    return escalations.find(isWanted)?.escalation_id ?? "";
  };
  return {
    pending: await first("pending", (each) => each.tool === "payments.transfer"),
    rejected: await first("rejected", () => true),
  };
}
