import { Agent } from "node:http";
import { post } from "../log/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import type { Child } from "./child.ts";
import { callRest } from "./clients.ts";
import type { Target } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, median, rangeOf, tableFrom } from "./report.ts";
import type { PartReport } from "./throughput.ts";

/** Single rounds differ by more than the bound is away from 1. */
const ROUNDS = 9;
const CALLERS = 32;
/** Calls of each kind in a round, for each second of `--seconds`. */
const CALLS_A_SECOND = 5_000;
const SESSION_VALUES = 5_000;
const MOST_DEARER = 1.2;
const TOOL = "send_email";
const INPUT_SCHEMA = {
  type: "object",
  properties: {
    recipients: { type: "array", items: { type: "string" } },
    subject: { type: "string" },
    attachment: { type: "string" },
  },
};

/** Three rules, each of which looks at an argument of every call. None fires. */
const RULES = [
  { arguments: [{ path: "recipients[]", kind: "destination" }], trusted: ["prompt", "approved"] },
  { arguments: [{ path: "attachment", kind: "path" }], trusted: ["prompt", "session"] },
  { arguments: [{ path: "subject", kind: "text" }], trusted: ["prompt"], fires: "seen_untrusted" },
].map((conditions) => ({ type: "provenance", tool: TOOL, decision: "escalate", conditions }));

interface Caller {
  readonly target: Target;
  readonly sessionId: string | undefined;
}

/** A workspace with an agent, with or without the rules and a session that observed many values. */
async function createCaller(server: TestServer, workspaceId: string, isObserved: boolean): Promise<Caller> {
  const { secret } = await post<{ secret: string }>(server, "/v1/admin/workspaces", { workspace_id: workspaceId });
  const admin = { http: server.http, adminKey: secret };
  await post(admin, "/v1/enforce/tools", { name: TOOL, input_schema: INPUT_SCHEMA });
  type Reply = { readonly agent: { readonly agent_id: string } };
  const { agent } = await post<Reply>(admin, "/v1/enforce/agents", { name: "agent" });
  const target = { address: new URL(server.http).host, apiKey: secret, agentIds: [agent.agent_id] };
  if (!isObserved) return { target, sessionId: undefined };
  await post(admin, "/v1/enforce/mandates", { name: "where values come from", rules: RULES });
  const session = { agent_id: agent.agent_id };
  const begun = await post<{ session: { session_id: string } }>(admin, "/v1/enforce/sessions", session);
  const sessionId = begun.session.session_id;
  const observe = (source: string, content: string) =>
    post(admin, `/v1/enforce/sessions/${sessionId}/observations`, { source, content });
  const people = Array.from({ length: 50 }, (_, index) => `person-${index}@partners.example`);
  await observe("prompt", `Send /reports/2026/q1.pdf to ${people.join(", ")}`);
  // Twenty results of as many values.
  for (let result = 0; result < 20; result++) {
    const words = Array.from({ length: SESSION_VALUES / 20 }, (_, index) => `seen-${result}-${index.toString(36)}x`);
    await observe("result", words.join(" "));
  }
  return { target, sessionId };
}

function bodyOf({ target: { agentIds }, sessionId }: Caller, index: number): string {
  const recipients = [`person-${index % 50}@partners.example`, `Person <person-${(index + 7) % 50}@partners.example>`];
  return JSON.stringify({
    agent_id: agentIds[0],
    action_type: "mail.send",
    action_content: `Send report ${index}`,
    tool: TOOL,
    metadata: { arguments: { recipients, subject: `Report ${index}`, attachment: "/reports/2026/q1.pdf" } },
    ...(sessionId !== undefined && { session_id: sessionId }),
  });
}

/** Makes calls of so many callers, each after its own before. Returns milliseconds a call. */
async function timed(caller: Caller, agent: Agent, count: number): Promise<number> {
  const bodies = Array.from({ length: count }, (_, index) => bodyOf(caller, index));
  let next = 0;
  const startedAt = performance.now();
  const work = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const reply = await callRest(caller.target, agent, bodies[index] as string);
      if (!reply.includes('"decision":"allow"')) throw new Error(`an action was not allowed: ${reply}`);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, work));
  return (performance.now() - startedAt) / count;
}

/** Measures the cost of provenance rules beside an action without them. */
export async function measureProvenance(
  { seconds }: BenchOptions,
  postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const databaseUrl = await postgres.createDatabase("provenance");
  const server = await startServer({ databaseUrl, env: { ACP_LOG_LEVEL: "warn" } });
  cleanup.defer(async () => void (await server.stop()));
  const callers = [await createCaller(server, "plain", false), await createCaller(server, "observed", true)];
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  cleanup.defer(() => agent.destroy());
  const times: [plain: number[], observed: number[]] = [[], []];
  for (let round = 0; round <= ROUNDS; round++) {
    for (const side of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const ms = await timed(callers[side] as Caller, agent, Math.ceil(CALLS_A_SECOND * seconds));
      // The first round is there for the compilers of both processes.
      if (round > 0) times[side]?.push(ms);
      console.error(`round ${round}  ${side === 0 ? "plain" : "observed"} ${figure(ms)} ms`);
    }
  }
  const [plain, observed] = times;
  const names = ["without rules and session", `three provenance rules, ${SESSION_VALUES.toLocaleString("en")} values`];
  const rows = times.map((own, side) => [names[side] as string, figure(median(own)), rangeOf(own)]);
  const figures = observed.map((ms, round) => ms / (plain[round] as number));
  const name = `intercept with three provenance rules and a session of ${SESSION_VALUES.toLocaleString("en")} values / without`;
  return {
    text: tableFrom([`REST, ${CALLERS} callers`, "ms a call", "of all rounds"], rows),
    checks: [{ name, figures, bound: { atMost: MOST_DEARER }, unit: "x" }],
  };
}
