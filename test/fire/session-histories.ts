import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { post } from "../log/rest.ts";
import type { TestServer } from "../support/server.ts";
import { createFireWorkspace, registerAgents } from "./agents.ts";
import { startKilledFleet } from "./killed-fleet.ts";

/** Size of a run. */
export interface HistoriesSize {
  readonly processes: number;
  readonly histories: number;
  /** Histories that go on at the same time. */
  readonly lanes: number;
  /** Milliseconds between kills. */
  readonly killEveryMs: number;
}

/** Result of a run. */
export interface HistoriesReport {
  readonly kills: number;
  readonly decisions: number;
  readonly escalated: number;
  /** Decisions on which the model differs. */
  readonly faults: readonly string[];
}

const RETRY_MS = 100;
const PEOPLE = Array.from({ length: 8 }, (_, index) => `person-${index}@partners.example`);
const TOOL = "send_email";

const RULES = [
  {
    type: "provenance",
    tool: TOOL,
    decision: "escalate",
    conditions: { arguments: [{ path: "to[]", kind: "destination" }], trusted: ["prompt", "approved"] },
  },
  {
    type: "provenance",
    tool: TOOL,
    decision: "escalate",
    conditions: { arguments: [{ path: "body", kind: "text" }], trusted: ["prompt"], fires: "seen_untrusted" },
  },
];

/** One session on plain sets. */
class NaiveSession {
  #hasPrompt = false;
  readonly #asked = new Set<string>();
  readonly #read = new Set<string>();
  readonly #approved = new Set<string>();

  prompt(people: readonly string[]): void {
    this.#hasPrompt = true;
    for (const each of people) this.#asked.add(each);
  }

  result(people: readonly string[]): void {
    for (const each of people) this.#read.add(each);
  }

  approve(people: readonly string[]): void {
    for (const each of people) this.#approved.add(each);
  }

  decide(to: readonly string[], named: readonly string[]): "allow" | "escalate" {
    if (!this.#hasPrompt) return "allow";
    if (to.some((each) => !this.#asked.has(each) && !this.#approved.has(each))) return "escalate";
    return named.some((each) => this.#read.has(each) && !this.#asked.has(each)) ? "escalate" : "allow";
  }
}

/** Calls a process again and again, another one each time, until one answers. */
class Client {
  readonly #servers: readonly TestServer[];
  readonly #apiKey: string;
  #next: number;

  constructor(servers: readonly TestServer[], apiKey: string, first: number) {
    this.#servers = servers;
    this.#apiKey = apiKey;
    this.#next = first;
  }

  async call<T>(path: string, body: object, done?: (error: string) => boolean): Promise<T | undefined> {
    for (;;) {
      const server = this.#servers[this.#next++ % this.#servers.length] as TestServer;
      try {
        return await post<T>({ http: server.http, adminKey: this.#apiKey }, path, body);
      } catch (error) {
        const { message } = error as Error;
        // A repeat of a call that was served and not answered.
        if (done?.(message) === true) return undefined;
        if (message.startsWith(path) && !/UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|SHUTTING/.test(message))
          throw error;
        await delay(RETRY_MS);
      }
    }
  }
}

interface Decided {
  readonly decision: string;
  readonly decision_id: string;
  readonly escalation_id: string | null;
}

const pickSome = (most: number): string[] =>
  Array.from(
    { length: 1 + Math.floor(Math.random() * most) },
    () => PEOPLE[Math.floor(Math.random() * PEOPLE.length)] as string,
  );

/** Lives one session step by step, and compares every decision with the model. */
async function live(
  client: Client,
  agentId: string,
  report: (decision: string, fault?: string) => void,
): Promise<void> {
  type Begun = { readonly session: { readonly session_id: string } };
  const begun = await client.call<Begun>("/v1/enforce/sessions", { agent_id: agentId });
  const session_id = begun?.session.session_id ?? "";
  const model = new NaiveSession();
  const told: string[] = [];
  const observe = (body: object) => client.call(`/v1/enforce/sessions/${session_id}/observations`, body);
  let last: Decided | undefined;
  const steps = 4 + Math.floor(Math.random() * 6);
  for (let step = 0; step < steps; step++) {
    const drawn = Math.random();
    if (drawn < 0.25) {
      const people = pickSome(2);
      await observe({ source: "prompt", content: `Mail the report to ${people.join(" and ")}.` });
      model.prompt(people);
      told.push(`prompt ${people}`);
    } else if (drawn < 0.5) {
      const people = pickSome(2);
      const of = last !== undefined && Math.random() < 0.5 ? { decision_id: last.decision_id } : {};
      last = undefined;
      await observe({ source: "result", content: JSON.stringify({ from: people }), ...of });
      model.result(people);
      told.push(`result ${people}`);
    } else {
      const [to, named] = [pickSome(2), pickSome(1)];
      const want = model.decide(to, named);
      // Of a content of its own, so that no session joins what another one asked for.
      const metadata = { arguments: { to, body: `Forwarded from ${named.join()}, as agreed.` } };
      const action = {
        agent_id: agentId,
        session_id,
        action_type: "mail.send",
        tool: TOOL,
        metadata,
        action_content: session_id,
      };
      const decided = await client.call<Decided>("/v1/enforce/intercept", { ...action, request_id: randomUUID() });
      const got = decided?.decision ?? "";
      const text = `${to} naming ${named}`;
      report(got, got === want ? undefined : `${text} was ${got}, not ${want}, after ${told.join("; ")}`);
      told.push(`${got} ${text}`);
      last = decided;
      if (decided === undefined || decided.escalation_id === null || Math.random() < 0.4) continue;
      const isApproved = Math.random() < 0.7;
      const resolution = isApproved ? "approved" : "rejected";
      const path = `/v1/enforce/escalations/${decided.escalation_id}/resolve`;
      await client.call(path, { resolution }, (error) => error.includes("ESCALATION_RESOLVED"));
      // The destinations of which the rule did not know are those that it asked about; the others were trusted anyway.
      if (isApproved && model.decide(to, []) === "escalate") model.approve(to);
      told.push(`${resolution} ${to}`);
    }
  }
}

/** Lives random sessions on several processes, one of which is killed every now and then. */
export async function runHistories(databaseUrl: string, size: HistoriesSize): Promise<HistoriesReport> {
  await using cleanup = new AsyncDisposableStack();
  const env = {
    ACP_ADMIN_KEY: randomBytes(24).toString("base64url"),
    ACP_LOG_LEVEL: "error",
    ACP_ENCRYPTION_KEY: randomBytes(32).toString("base64url"),
  };
  const fleet = await startKilledFleet({ databaseUrl, processes: size.processes, env }, cleanup);
  const { servers } = fleet;
  const [first] = servers as [TestServer];
  const { apiKey } = await createFireWorkspace(first, "histories", { max_pending_escalations_per_agent: 1_000 });
  const admin = { http: first.http, adminKey: apiKey };
  const to = { type: "array", items: { type: "string" } };
  const input_schema = { type: "object", properties: { to, body: { type: "string" } } };
  await post(admin, "/v1/enforce/tools", { name: TOOL, input_schema });
  await post(admin, "/v1/enforce/mandates", { name: "where values come from", rules: RULES });
  const agents = await registerAgents(admin, size.lanes);
  let left = size.histories;
  let [decisions, escalated] = [0, 0];
  const faults: string[] = [];
  const report = (decision: string, fault?: string): void => {
    decisions += 1;
    if (decision === "escalate") escalated += 1;
    if (fault !== undefined) faults.push(fault);
  };
  const lanes = agents.map(async ({ agentId }, lane) => {
    while (left-- > 0) await live(new Client(servers, apiKey, lane), agentId, report);
  });
  let isOver = false;
  const killing = (async () => {
    while (!isOver) await fleet.killOneAfter(size.killEveryMs);
  })();
  await Promise.all(lanes);
  isOver = true;
  await killing;
  return { kills: fleet.kills, decisions, escalated, faults };
}
