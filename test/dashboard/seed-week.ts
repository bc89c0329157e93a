/*
 * Fills a workspace with a week of work before anybody looks at it, through the same code as the service but by a clock that walks from
 * seven days ago to now. The numbers are drawn anew from one seed, so that two runs show the same week.
 */

import { create, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { RuleSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import { actionFrom } from "../../src/api/action.ts";
import type { Caller } from "../../src/api/context.ts";
import { resolveEscalation } from "../../src/escalation/escalation.ts";
import { createWorkspaceLogs } from "../../src/log/workspace-logs.ts";
import type { WorkspaceLog } from "../../src/log/writer.ts";
import { registerAgent } from "../../src/registry/agents.ts";
import { addDepartmentMember, createDepartment } from "../../src/registry/departments.ts";
import { createMandate } from "../../src/registry/mandates.ts";
import { registerTools } from "../../src/registry/tools.ts";
import { createWorkspace } from "../../src/registry/workspaces.ts";
import { type Database, openDatabase } from "../../src/store/database.ts";
import { SILENT_LOG } from "../support/database.ts";
import { decideOn } from "../support/decide-on.ts";
import { directUrlOf } from "../support/pooler.ts";
import { createTestClock, type TestClock } from "../support/test-clock.ts";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Time before now in which everything that still waits was asked. */
const WAITING_MS = 50 * MINUTE_MS;
/** Time that a person took to answer. */
const ANSWER_MS = 4 * MINUTE_MS;
const BY = "system";
/** Calls of the agent whose limit is nearly full, of the 20 that it may make in a day. */
const EXPORTS = 18;

/** How a week is seeded. */
export interface WeekOptions {
  readonly databaseUrl: string;
  /** Default `acme`. */
  readonly workspaceId?: string;
  /** Default 40. */
  readonly agents?: number;
  /** Decisions of the week beside those that wait and those of the limit. Default 3,000. */
  readonly decisions?: number;
  /** Escalations that wait for a person. Default 25. */
  readonly waiting?: number;
}

/** An agent of a week. */
export interface WeekAgent {
  readonly agentId: string;
  readonly name: string;
}

/** A workspace with a week behind it. */
export interface SeededWeek {
  readonly workspaceId: string;
  /** Key of an administrator. */
  readonly apiKey: string;
  readonly agents: readonly WeekAgent[];
  /** Agent that has made 18 of the 20 exports that it may make in a day. */
  readonly exporter: WeekAgent;
  /** Agent of which payments above the limit were blocked on every day. */
  readonly payer: WeekAgent;
}

const TEAMS = [
  { team: "Finance", roles: ["invoice-bot", "payout-bot", "ledger-bot", "tax-bot", "treasury-bot"] },
  { team: "Support", roles: ["refund-desk", "ticket-bot", "chat-bot", "returns-bot", "review-bot"] },
  { team: "Operations", roles: ["export-bot", "stock-bot", "order-bot", "freight-bot", "supply-bot"] },
  { team: "Engineering", roles: ["deploy-bot", "triage-bot", "backup-bot", "review-helper", "release-bot"] },
] as const;
const RECIPIENTS = [
  "Nordwind GmbH",
  "Acme Ltd",
  "Blue Harbour",
  "Kestrel Foods",
  "Orion Print",
  "Lumen Energy",
  "Tide & Sons",
];
const REGIONS = ["north", "east", "south", "west"];

const text = (more: JsonObject = {}): JsonObject => ({ type: "string", ...more });
const object = (required: readonly string[], properties: JsonObject): JsonObject => ({
  type: "object",
  required: [...required],
  properties,
});
const TOOLS: Readonly<Record<string, { readonly description: string; readonly schema: JsonObject }>> = {
  "payments.transfer": {
    description: "Pays an invoice to a supplier",
    schema: object(["amount", "currency", "recipient"], {
      amount: { type: "number", minimum: 0 },
      currency: text({ enum: ["EUR", "USD", "GBP"] }),
      recipient: text(),
      reference: text(),
      lines: { type: "array", items: object([], { item: text(), amount: { type: "number" } }) },
    }),
  },
  "refunds.create": {
    description: "Returns money to a customer",
    schema: object(["amount", "order"], { amount: { type: "number" }, order: text(), reason: text() }),
  },
  "mail.send": { description: "Sends a mail", schema: object(["to"], { to: text(), subject: text(), body: text() }) },
  "reports.export": { description: "Exports a report", schema: object([], { region: text({ enum: REGIONS }) }) },
  "crm.delete_contact": { description: "Deletes a contact", schema: object(["contact"], { contact: text() }) },
  "secrets.read": { description: "Reads a secret", schema: object(["name"], { name: text() }) },
  "http.post": { description: "Posts to a web address", schema: object(["url"], { url: text() }) },
};

const over = (tool: string, value: number, decision: string, more: JsonObject = {}): JsonObject => ({
  tool,
  decision,
  conditions: { rules: [{ field: "amount", operator: ">", value }] },
  ...more,
});
const MANDATES: Readonly<Record<string, readonly JsonObject[]>> = {
  "Large payments": [
    over("payments.transfer", 10_000, "block"),
    over("payments.transfer", 2_000, "escalate", { escalation_ttl_seconds: 7_200 }),
  ],
  "Generous refunds": [over("refunds.create", 150, "escalate", { escalation_ttl_seconds: 3_600 })],
  "Contacts stay": [{ type: "action", decision: "block", conditions: { match_action_types: ["crm.delete*"] } }],
  "Exports of a day": [
    {
      type: "sequence",
      decision: "escalate",
      conditions: { mode: "velocity", match_action_types: ["reports.export"], max_count: 20, window_seconds: 86_400 },
    },
  ],
  "Secrets stay inside": [
    {
      type: "sequence",
      decision: "block",
      conditions: { mode: "ordered", steps: ["secrets.read", "http.post"], window_seconds: 600 },
    },
  ],
};

/** Draws numbers from 0 to 1, the same in every run (mulberry32). */
function createDraw(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
type Draw = ReturnType<typeof createDraw>;

const oneOf = <T>(draw: Draw, items: readonly T[]): T => items[Math.floor(draw() * items.length)] as T;

/** An action to attempt. */
interface Attempt {
  readonly tool: string;
  readonly args: JsonObject;
}

const payment = (draw: Draw, amount: number): Attempt => ({
  tool: "payments.transfer",
  args: {
    amount,
    currency: draw() < 0.8 ? "EUR" : "USD",
    recipient: oneOf(draw, RECIPIENTS),
    reference: `invoice ${4_000 + Math.floor(draw() * 900)}`,
    lines: [
      { item: "goods", amount: Math.round(amount * 0.8) },
      { item: "freight", amount: Math.round(amount * 0.2) },
    ],
  },
});
const refund = (draw: Draw, amount: number): Attempt => ({
  tool: "refunds.create",
  args: { amount, order: `A-${10_000 + Math.floor(draw() * 9_000)}`, reason: "arrived broken" },
});
const mail = (draw: Draw): Attempt => ({
  tool: "mail.send",
  args: { to: `customer${Math.floor(draw() * 300)}@example.com`, subject: "Your order", body: "It is on its way." },
});

/** Draws an ordinary action: most are allowed, few are blocked, and about one of a hundred escalates. */
function ordinary(draw: Draw): Attempt {
  const kind = draw();
  if (kind < 0.3) return payment(draw, Math.round(40 + draw() ** 3 * 1_800));
  if (kind < 0.31) return payment(draw, Math.round(2_100 + draw() * 3_000));
  if (kind < 0.32) return payment(draw, Math.round(10_500 + draw() * 30_000));
  if (kind < 0.5) return refund(draw, Math.round(5 + draw() * 140));
  if (kind < 0.505) return refund(draw, Math.round(160 + draw() * 200));
  if (kind < 0.515) return { tool: "crm.delete_contact", args: { contact: `c-${Math.floor(draw() * 999)}` } };
  if (kind < 0.535) return { tool: "secrets.read", args: { name: "smtp" } };
  if (kind < 0.55) return { tool: "http.post", args: { url: "https://partner.example/orders" } };
  return mail(draw);
}

/** Draws an action that waits for a person. */
const escalating = (draw: Draw): Attempt =>
  draw() < 0.7 ? payment(draw, Math.round(2_050 + draw() ** 2 * 7_000)) : refund(draw, Math.round(155 + draw() * 600));

/** Writes a week into the log of one workspace. */
class WeekWriter {
  readonly #database: Database;
  readonly #log: WorkspaceLog;
  readonly #clock: TestClock;
  readonly #caller: Caller;
  readonly #draw = createDraw(41);

  constructor(database: Database, log: WorkspaceLog, clock: TestClock, caller: Caller) {
    this.#database = database;
    this.#log = log;
    this.#clock = clock;
    this.#caller = caller;
  }

  async addRules(): Promise<void> {
    const drafts = Object.entries(TOOLS).map(([name, { description, schema }]) => ({
      name,
      description,
      inputSchema: schema,
      source: ToolSource.API,
    }));
    await registerTools(this.#log, BY, drafts);
    for (const [name, rules] of Object.entries(MANDATES)) {
      const scope = { scope: "workspace", mode: "enforce", priority: 0 } as const;
      await createMandate(
        this.#log,
        { by: BY, note: "" },
        { name, description: "", ...scope, rules: rules.map(ruleFrom) },
      );
    }
  }

  async addAgents(count: number): Promise<readonly WeekAgent[]> {
    const departments: string[] = [];
    for (const { team } of TEAMS) {
      const { department } = await createDepartment(this.#log, BY, { name: team, description: "" });
      departments.push(department.department_id);
    }
    const agents: WeekAgent[] = [];
    while (agents.length < count) {
      const [index, turn] = [agents.length % TEAMS.length, Math.floor(agents.length / TEAMS.length)];
      const { team, roles } = TEAMS[index] as (typeof TEAMS)[number];
      const [role, round] = [roles[turn % roles.length], Math.floor(turn / roles.length)];
      const name = round === 0 ? `${role}` : `${role} ${round + 1}`;
      const texts = { name, framework: "langgraph", description: `Does the work of ${role} for ${team}` };
      const none = { capabilities: [], allowedActionTypes: [], deniedActionTypes: [] };
      const { agentId } = await registerAgent(this.#log, BY, { ...texts, ...none });
      await addDepartmentMember(this.#log, BY, departments[index] as string, agentId);
      agents.push({ agentId, name });
    }
    return agents;
  }

  /** Moves the clock on to a time, unless it is past it. */
  #moveTo(ms: number): void {
    this.#clock.advance(Math.max(0, Math.round(ms) - this.#clock.now()));
  }

  async act(ms: number, agentId: string, { tool, args }: Attempt): Promise<string | undefined> {
    this.#moveTo(ms);
    const request = create(InterceptRequestSchema, {
      agentId,
      actionType: tool,
      tool,
      actionContent: TOOLS[tool]?.description ?? "",
      metadata: { arguments: args },
    });
    return (await decideOn(this.#log, actionFrom(request, this.#caller))).escalationId;
  }

  /** Has people answer what escalates, some minutes later; a payment of the payer is blocked every day. */
  async addWeek(agents: readonly WeekAgent[], payer: WeekAgent, count: number, firstMs: number, lastMs: number) {
    const times = Array.from({ length: count }, () => firstMs + this.#draw() * (lastMs - firstMs)).sort(
      (a, b) => a - b,
    );
    let blockedOn = 0;
    for (const ms of times) {
      const day = Math.floor(ms / DAY_MS);
      if (day > blockedOn) {
        blockedOn = day;
        await this.act(ms, payer.agentId, payment(this.#draw, 14_500));
      }
      const escalationId = await this.act(ms, oneOf(this.#draw, agents).agentId, ordinary(this.#draw));
      if (escalationId !== undefined) await this.#answer(escalationId, ms + ANSWER_MS * this.#draw());
    }
  }

  async #answer(escalationId: string, ms: number): Promise<void> {
    this.#moveTo(ms);
    const isApproved = this.#draw() < 0.8;
    const answer = isApproved
      ? { resolution: "approved" as const, note: null }
      : { resolution: "rejected" as const, note: "The amount or the recipient is wrong. Check it and ask again." };
    const by = this.#caller.keyId;
    await resolveEscalation({ log: this.#log, pool: this.#database.pool }, { escalationId, by, ...answer });
  }

  async addExports({ agentId }: WeekAgent, firstMs: number, lastMs: number): Promise<void> {
    for (let index = 0; index < EXPORTS; index++) {
      const ms = firstMs + ((lastMs - firstMs) * index) / EXPORTS;
      await this.act(ms, agentId, { tool: "reports.export", args: { region: oneOf(this.#draw, REGIONS) } });
    }
  }

  async addWaiting(agents: readonly WeekAgent[], count: number, firstMs: number, lastMs: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const ms = firstMs + ((lastMs - firstMs) * index) / count;
      const { agentId } = agents[index % agents.length] as WeekAgent;
      await this.act(ms, agentId, escalating(this.#draw));
    }
  }
}

const ruleFrom = (rule: JsonObject) => fromJson(RuleSchema, enumsFrom(rule));

/** Writes the short words of a rule as the enums of proto JSON. */
function enumsFrom(rule: JsonObject): JsonObject {
  const { type, decision, conditions, ...rest } = rule as { type?: string; decision: string; conditions: JsonObject };
  const { mode, ...others } = conditions;
  return {
    ...rest,
    ...(type !== undefined && { type: `RULE_TYPE_${type.toUpperCase()}` }),
    decision: `DECISION_${decision.toUpperCase()}`,
    conditions: { ...others, ...(typeof mode === "string" && { mode: `SEQUENCE_MODE_${mode.toUpperCase()}` }) },
  };
}

/**
 * Adds a workspace with agents in four departments, seven tools, five mandates, a week of decisions that people answered, an agent whose
 * limit is nearly full, and escalations that wait.
 */
export async function seedWeek({
  databaseUrl: url,
  workspaceId = "acme",
  agents: agentCount = 40,
  decisions = 3_000,
  waiting = 25,
}: WeekOptions): Promise<SeededWeek> {
  await using cleanup = new AsyncDisposableStack();
  const database = await openDatabase({ url, directUrl: directUrlOf(url), poolSize: 3, log: SILENT_LOG });
  cleanup.defer(() => database.close());
  const nowMs = Date.now();
  const firstMs = nowMs - WEEK_MS;
  const context = { database, nowMs: firstMs, by: BY };
  const maxPendingEscalationsPerAgent = 1_000;
  const { key, secret } = await createWorkspace(context, { workspaceId, maxPendingEscalationsPerAgent });
  const clock = createTestClock();
  clock.advance(-WEEK_MS);
  const logs = await createWorkspaceLogs(database, SILENT_LOG, { clock });
  cleanup.defer(() => logs.close());
  const caller = { keyId: key.keyId, workspaceId, role: Role.ADMIN, agentId: null };
  const writer = new WeekWriter(database, await logs.of(workspaceId), clock, caller);
  await writer.addRules();
  const agents = await writer.addAgents(agentCount);
  const named = (wanted: string): WeekAgent => agents.find(({ name }) => name === wanted) ?? (agents[0] as WeekAgent);
  const [exporter, payer] = [named("export-bot"), named("invoice-bot")];
  const [waitingMs, exportsMs] = [nowMs - WAITING_MS, nowMs - 3 * HOUR_MS];
  await writer.addWeek(agents, payer, decisions, firstMs + MINUTE_MS, exportsMs);
  await writer.addExports(exporter, exportsMs, waitingMs);
  await writer.addWaiting(agents, waiting, waitingMs, nowMs - MINUTE_MS);
  return { workspaceId, apiKey: secret, agents, exporter, payer };
}
