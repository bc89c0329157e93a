import { encodedHeader } from "../../src/gateway/headers.ts";
import { type GatewayServiceProcess, startGatewayProcess } from "../gateway/harness.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, SECRET } from "./lab.ts";
import { arrivalFault, FORBIDDEN, isDecided } from "./mcp-judge.ts";
import { type Arrival, type Generation, type McpUpstream, startMcpUpstream } from "./mcp-upstream.ts";
import { exchangeBytes, type RawResponse, responseFrom } from "./raw-http.ts";
import { rejectPending } from "./reject-pending.ts";
import { isRight, type Reached, reachedText } from "./rights.ts";

/** A request of MCP that the gateway refuses or escalates, and one beside it that passes. */
export interface McpPlain {
  readonly rule: string;
  readonly verdict: Verdict;
  readonly method: string;
  readonly params: Params;
  readonly allowed: Params;
  /** Undefined for a method of both. */
  readonly generation?: Generation;
}
type Params = Readonly<Record<string, unknown>>;
type Verdict = "block" | "escalate";

/** A tool call of a coding agent that the hooks deny, and one beside it that they do not. */
export interface HookPlain {
  readonly rule: string;
  readonly tool: string;
  readonly input: object;
  readonly allowed: { readonly tool: string; readonly input: object };
}

/** An agent with a key of its own, and its session. */
export interface Party {
  readonly agentId: string;
  readonly key: string;
  /** Undefined once a case has ended it. */
  session: string | undefined;
}

/** Servers, agents and sessions of one case at a time. */
export interface Lane {
  readonly name: string;
  readonly own: Party;
  readonly stranger: Party;
  /** Tasks that `own` has. */
  readonly ownTasks: string[];
  lastId: number;
}

/** Bytes for the gateway. */
export interface GatewayRequest {
  readonly line: string;
  readonly headers: readonly string[];
  readonly body: Buffer;
  /** Sent in place of the length and the body. */
  readonly framed?: Buffer | undefined;
}

/** The answer to a request, read. */
export interface McpAnswer extends RawResponse {
  readonly json: Record<string, unknown> | undefined;
  readonly reached: Reached;
}

const NO_TEXT = { on_missing: "ignore" };
const LANES = 8;
/** Sessions that the gateway may have open: of each lane two, and those that its stateless requests share. */
const MAX_SESSIONS = 16 * LANES;
const ACCEPT = ["accept: application/json, text/event-stream", "content-type: application/json"];
export const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const PLACES: Readonly<Record<string, readonly [Params, Params]>> = {
  folder: [{ uri: `${FORBIDDEN.folder}keys` }, { uri: "file:///public/keys" }],
  site: [{ uri: `${FORBIDDEN.site}keys` }, { uri: "https://shop.test/keys" }],
};

const listening = (uris: Params): Params => ({ notifications: { resourceSubscriptions: [uris.uri] } });
const plain = (
  rule: string,
  method: string,
  [params, allowed]: readonly [Params, Params],
  more: Partial<McpPlain> = {},
): McpPlain => ({ rule, verdict: "block", method, params, allowed, ...more });
const completing = (name: string): Params => ({
  ref: { type: "ref/prompt", name: "greet" },
  argument: { name, value: "a" },
});
const paying = (args: object): Params => ({ name: "pay", arguments: args });

/** Requests that the rules of every lane refuse. */
export const MCP_PLAINS: readonly McpPlain[] = [
  plain("a tool", "tools/call", [
    { name: "shred", arguments: {} },
    { name: "read", arguments: {} },
  ]),
  plain("an escalated tool", "tools/call", [{ name: "wire", arguments: { to: "a" } }, paying({})], {
    verdict: "escalate",
  }),
  plain("a number", "tools/call", [paying({ amount: 900 }), paying({ amount: 500 })]),
  plain("a text", "tools/call", [paying({ note: FORBIDDEN.text }), paying({ note: "invasion" })]),
  plain("a prompt", "prompts/get", [{ name: FORBIDDEN.prompt }, { name: "greet" }]),
  plain("a completion", "completion/complete", [completing(FORBIDDEN.completed), completing("who")]),
  ...Object.entries(PLACES).flatMap(([place, uris]) => [
    plain(`a ${place}`, "resources/read", uris),
    plain(`a subscription to a ${place}`, "resources/subscribe", uris, { generation: "stateful" }),
    plain(`a stream about a ${place}`, "subscriptions/listen", [listening(uris[0]), listening(uris[1])], {
      generation: "stateless",
    }),
  ]),
];

const CLIENTS = ["claude-code", "codex"] as const;
export const HOOK_PLAINS: readonly HookPlain[] = [
  { rule: "a tool", tool: "WebFetch", input: {}, allowed: { tool: "Read", input: {} } },
  {
    rule: "an input",
    tool: "Bash",
    input: { command: "sudo rm -rf /" },
    allowed: { tool: "Bash", input: { command: "ls" } },
  },
  { rule: "a tool that waits", tool: "Write", input: { path: "/x" }, allowed: { tool: "Read", input: {} } },
  {
    rule: "a tool of a server",
    tool: "mcp__bank__shred",
    input: {},
    allowed: { tool: "mcp__bank__read", input: {} },
  },
];

const condition = (field: string, operator: string, value: unknown, more: object = NO_TEXT) => ({
  operator: "AND",
  rules: [{ field, operator, value, ...more }],
});

function rulesOf(server: string): object[] {
  const about = (tool: string, conditions: object) => ({
    type: "argument",
    tool: `${server}.${tool}`,
    decision: "block",
    conditions,
  });
  const onType = (decision: string, tool: string) => ({
    type: "action",
    decision,
    conditions: { match_action_types: [`${server}.${tool}`] },
  });
  const places = ["resources/read", "resources/subscribe"].flatMap((method) =>
    [FORBIDDEN.folder, FORBIDDEN.site].map((place) => about(method, condition("uri", "starts_with", place, {}))),
  );
  return [
    onType("block", "shred"),
    onType("escalate", "wire"),
    about("pay", condition("amount", ">", FORBIDDEN.amount)),
    about("pay", condition("note", "==", FORBIDDEN.text)),
    about("prompts/get", condition("name", "==", FORBIDDEN.prompt, {})),
    about("completion/complete", condition("argument.name", "==", FORBIDDEN.completed, {})),
    ...places,
  ];
}

const HOOK_RULES = CLIENTS.flatMap((client) => [
  { type: "action", decision: "block", conditions: { match_action_types: [`${client}.webfetch`] } },
  { type: "action", decision: "escalate", conditions: { match_action_types: [`${client}.write`] } },
  {
    type: "metadata",
    tool: `${client}.Bash`,
    decision: "block",
    conditions: condition("command", "contains", "rm -rf"),
  },
]);

/** The program as a process in front of MCP servers of the test, which keep what reaches them. */
export class GatewayLab {
  readonly service: GatewayServiceProcess;
  readonly port: number;
  readonly #upstream: McpUpstream;
  readonly #lanes: Lane[] = [];
  readonly #waiting: ((lane: Lane) => void)[] = [];
  readonly #keys: string[] = [];
  /** Arrivals by server and action, and the allowing decisions that are seen in the log. */
  readonly #forwarded = new Map<string, number>();
  readonly #allowed = new Map<string, number>();
  #lastSeen: string | undefined;

  private constructor(service: GatewayServiceProcess, upstream: McpUpstream) {
    this.service = service;
    this.#upstream = upstream;
    this.port = Number(new URL(service.http).port);
  }

  static async open(): Promise<GatewayLab> {
    const upstream = await startMcpUpstream();
    const service = await startGatewayProcess({ env: { ACP_MCP_HOLD_MS: "0" } });
    const lab = new GatewayLab(service, upstream);
    for (let each = 0; each < LANES; each++) await lab.#addLane(`h${each}`);
    const rules = [
      ...HOOK_RULES,
      { type: "action", decision: "block", conditions: { match_action_types: ["bank.shred"] } },
    ];
    await service.rest("POST /v1/enforce/mandates", { name: "hooks", rules });
    await lab.assertPlain();
    return lab;
  }

  get pid(): number {
    return this.service.pid;
  }

  async close(): Promise<void> {
    await this.service.stop();
    await this.#upstream.close();
  }

  /** Runs a case in a lane of its own. */
  async inLane(run: (lane: Lane) => Promise<void>): Promise<void> {
    const lane = this.#lanes.pop() ?? (await new Promise<Lane>((resolve) => this.#waiting.push(resolve)));
    try {
      for (const party of [lane.own, lane.stranger]) party.session ??= await this.#openSession(lane, party);
      await run(lane);
    } finally {
      this.#takeArrivals(lane);
      const next = this.#waiting.shift();
      if (next === undefined) this.#lanes.push(lane);
      else next(lane);
    }
  }

  /** Checks every plain request, that what was forwarded is in the log, and that nothing stays open. */
  async assertPlain(): Promise<void> {
    for (const { own, stranger } of [...this.#lanes]) {
      for (const { agentId } of [own, stranger]) await rejectPending(this.service, agentId);
    }
    await this.inLane(async (lane) => {
      for (const generation of ["stateful", "stateless"] as const) {
        for (const each of MCP_PLAINS) await this.assertBoth(lane, generation, each);
      }
    });
    await this.#assertRecorded();
    const { ok } = await fetch(`${this.service.http}/healthz`);
    if (!ok) throw new HostileFinding("the service is not healthy");
    if (this.#upstream.sessions.size > MAX_SESSIONS) {
      throw new HostileFinding(`${this.#upstream.sessions.size} sessions are open at the server`);
    }
    const fault = /^.*"(unhandledRejection|uncaughtException|INTERNAL)".*$/m.exec(this.service.output())?.[0];
    if (fault !== undefined) throw new HostileFinding(`the service logged ${fault}`);
  }

  /** Checks that a plain request is refused and reaches nothing, and that the one beside it reaches the server. */
  async assertBoth(lane: Lane, generation: Generation, plainOne: McpPlain): Promise<void> {
    const { rule, verdict, method, params, allowed } = plainOne;
    if (plainOne.generation !== undefined && plainOne.generation !== generation) return;
    const blocked = await this.ask(this.request(lane, generation, method, params));
    if (blocked.reached !== "same" || decisionOf(blocked.json)?.decision !== verdict) {
      throw new HostileFinding(`the plain request of ${rule} (${generation}): ${blocked.body.slice(0, 300)}`);
    }
    this.assertArrivals(lane, `the plain request of ${rule}`);
    const passed = await this.ask(this.request(lane, generation, method, allowed));
    const { length } = this.assertArrivals(lane, `the request beside ${rule}`);
    if (length !== 1) {
      throw new HostileFinding(`a request beside ${rule} (${generation}): ${passed.body.slice(0, 300)}`);
    }
  }

  /** Writes a message as a well-behaved client sends it. */
  request(
    lane: Lane,
    generation: Generation,
    method: string,
    params: Params,
    { party = lane.own, id = ++lane.lastId }: { party?: Party; id?: unknown } = {},
  ): GatewayRequest {
    const whole = generation === "stateless" ? { ...params, _meta: { ...ENVELOPE, ...(params._meta ?? {}) } } : params;
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params: whole });
    return this.post(lane, generation, body, { method, named: params.name ?? params.uri ?? params.taskId, party });
  }

  /** Wraps a body in the request of a well-behaved client. */
  post(
    lane: Lane,
    generation: Generation,
    body: string,
    { method, named, party = lane.own }: { method: string; named?: unknown; party?: Party },
  ): GatewayRequest {
    const stateless = [
      "mcp-protocol-version: 2026-07-28",
      `mcp-method: ${method}`,
      ...(typeof named === "string" ? [`mcp-name: ${encodedHeader(named)}`] : []),
    ];
    return {
      line: `POST /mcp/${serverOf(lane, generation)} HTTP/1.1`,
      headers: [
        ...ACCEPT,
        `x-api-key: ${party.key}`,
        ...(generation === "stateless" ? stateless : [`mcp-session-id: ${party.session}`]),
      ],
      body: Buffer.from(body),
    };
  }

  async ask({ line, headers, body, framed }: GatewayRequest): Promise<McpAnswer> {
    const length = framed === undefined ? [`content-length: ${body.length}`] : [];
    const head = [line, `host: 127.0.0.1:${this.port}`, ...headers, ...length, "connection: close", "", ""];
    const bytes = Buffer.concat([Buffer.from(head.join("\r\n"), "latin1"), framed ?? body]);
    const answer = responseFrom(await exchangeBytes(this.port, bytes));
    const json = messageFrom(answer.body);
    return { ...answer, json, reached: reachedFrom(answer, json) };
  }

  /** Sends a disguised request, and checks its answer and what reached the server. Throws a `HostileFinding`. */
  async attempt(draw: Draw, lane: Lane, request: GatewayRequest): Promise<McpAnswer> {
    const answer = await this.ask(request);
    this.judge(draw, lane, answer, request);
    return answer;
  }

  /** Checks an answer and what reached the server. */
  judge(draw: Draw, lane: Lane, answer: McpAnswer, sent: GatewayRequest, approved?: object): void {
    const uses = draw.takeUses();
    const told = (fault: string): HostileFinding => {
      const shown = `${[sent.line, ...sent.headers.filter((each) => !/^x-api-key/.test(each))].join(" | ")} || ${(sent.framed ?? sent.body).subarray(0, 1_000)}`;
      const escaped = shown.replace(/[^ -~]/gu, (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`);
      return new HostileFinding(`${fault} [${uses.map(({ disguise }) => disguise).join("; ")}]: ${escaped}`);
    };
    try {
      this.assertArrivals(lane, "a disguised request", approved);
    } catch (error) {
      throw told((error as Error).message);
    }
    const { status, body, reached } = answer;
    if (!(status >= 200 && status < 500)) throw told(`no answer, or a fault (${status} ${body.slice(0, 300)})`);
    if (this.#keys.some((key) => body.includes(key)) || (status >= 400 && body.includes(SECRET))) {
      throw told(`a secret in the answer ${body.slice(0, 300)}`);
    }
    draw.count(uses, reached);
    if (!isRight(uses, reached))
      throw told(`${reachedText(reached)} is not right (${status} ${body.slice(0, 300)}) for`);
  }

  /** Checks that all that reached the servers of a lane may, and gives it. */
  assertArrivals(lane: Lane, what: string, approved?: object): readonly Arrival[] {
    const arrived = this.#takeArrivals(lane);
    for (const each of arrived) {
      const fault = arrivalFault(each, lane.ownTasks, approved);
      if (fault !== undefined) {
        throw new HostileFinding(`${what}: ${fault} reached the server: ${JSON.stringify(each.message)}`);
      }
    }
    return arrived;
  }

  #takeArrivals(lane: Lane): readonly Arrival[] {
    const arrived = this.#upstream.arrivedAt(lane.name).splice(0);
    for (const { message, generation } of arrived) {
      if (!isDecided(message?.method)) continue;
      const { method, params = {} } = message as { method: string; params?: Params };
      const subject =
        method === "tools/call" ? params.name : method === "subscriptions/listen" ? "resources/subscribe" : method;
      count(this.#forwarded, `${serverOf(lane, generation)}.${subject}`);
    }
    return arrived;
  }

  /** Checks that each request that reached a server has its own allowing decision. */
  async #assertRecorded(): Promise<void> {
    let newest: string | undefined;
    for (let token = ""; ; ) {
      const path = `GET /v1/enforce/decisions?page_size=500${token === "" ? "" : `&page_token=${encodeURIComponent(token)}`}`;
      const page = (await this.service.rest(path)) as unknown as {
        decisions: { decision_id: string; decision: string; action_type: string }[];
        next_page_token?: string;
      };
      newest ??= page.decisions[0]?.decision_id;
      const seen = page.decisions.findIndex(({ decision_id }) => decision_id === this.#lastSeen);
      for (const each of seen < 0 ? page.decisions : page.decisions.slice(0, seen)) {
        if (each.decision === "allow") count(this.#allowed, each.action_type);
      }
      token = page.next_page_token ?? "";
      if (seen >= 0 || token === "") break;
    }
    this.#lastSeen = newest;
    for (const [action, forwarded] of this.#forwarded) {
      const allowed = this.#allowed.get(action) ?? 0;
      if (allowed < forwarded) {
        throw new HostileFinding(
          `${forwarded} requests of ${action} reached the server, ${allowed} are allowed in the log`,
        );
      }
    }
  }

  async #addLane(name: string): Promise<void> {
    const lane: Lane = {
      name,
      own: await this.#addParty(`${name} own`),
      stranger: await this.#addParty(`${name} stranger`),
      ownTasks: [`${name}-own`],
      lastId: 0,
    };
    for (const generation of ["stateful", "stateless"] as const) {
      const server = serverOf(lane, generation);
      await this.service.add(server, { url: this.#upstream.urlOf(name, generation) });
    }
    for (const party of [lane.own, lane.stranger]) {
      party.session = await this.#openSession(lane, party);
      for (const generation of ["stateful", "stateless"] as const) {
        const params = { name: "task", arguments: { taskId: party === lane.own ? `${name}-own` : `${name}-other` } };
        const { status, body } = await this.ask(this.request(lane, generation, "tools/call", params, { party }));
        if (status !== 200) throw new Error(`no task: ${status} ${body}`);
      }
    }
    for (const generation of ["stateful", "stateless"] as const) {
      const server = serverOf(lane, generation);
      // A method is registered as a tool, which its rules are about, at its first request.
      for (const { method, allowed, generation: only } of MCP_PLAINS) {
        if ((only ?? generation) === generation) await this.ask(this.request(lane, generation, method, allowed));
      }
      await this.service.rest("POST /v1/enforce/mandates", { name: server, rules: rulesOf(server) });
    }
    this.#takeArrivals(lane);
    this.#lanes.push(lane);
  }

  async #addParty(name: string): Promise<Party> {
    const agentId = await this.service.agent(name);
    const { secret } = (await this.service.rest("POST /v1/admin/keys", {
      name,
      role: "agent",
      agent_id: agentId,
    })) as unknown as { secret: string };
    this.#keys.push(secret);
    return { agentId, key: secret, session: undefined };
  }

  async #openSession(lane: Lane, party: Party): Promise<string> {
    const clientInfo = { name: "test", version: "1" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
    const request = this.post(lane, "stateful", body, {
      method: "initialize",
      party: { ...party, session: undefined },
    });
    const headers = request.headers.filter((each) => !each.startsWith("mcp-session-id"));
    const { head, body: said } = await this.ask({ ...request, headers });
    const session = /^mcp-session-id: *(\S+)/im.exec(head)?.[1];
    if (session === undefined) throw new HostileFinding(`no session is opened: ${head} ${said}`);
    return session;
  }
}

/** The name of a lane's server. */
export const serverOf = ({ name }: Lane, generation: Generation): string =>
  `${name}${generation === "stateful" ? "a" : "b"}`;

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

interface DecisionMeta {
  readonly decision: string;
  readonly escalation_id?: string | null;
  readonly reasons?: readonly { readonly code: string }[];
}

/** The decision that an answer tells. */
export function decisionOf(json: Record<string, unknown> | undefined): DecisionMeta | undefined {
  const { result, error } = (json ?? {}) as { result?: { _meta?: object }; error?: { data?: object } };
  const holder = (error === undefined ? result?._meta : error.data) as Record<string, DecisionMeta> | undefined;
  return holder?.["agentcontrol.v1/decision"];
}

/** Reads the last message of an answer. */
function messageFrom(body: string): Record<string, unknown> | undefined {
  const text = body.startsWith("{") ? body : [...body.matchAll(/^data: (.+)$/gm)].at(-1)?.[1];
  try {
    return JSON.parse(text ?? "") as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** Reads what an answer came to: a refusing decision, or another refusal; PASSED is a result. */
function reachedFrom({ status }: RawResponse, json: Record<string, unknown> | undefined): Reached {
  const decision = decisionOf(json);
  if (decision !== undefined && decision.decision !== "allow") {
    const code = decision.reasons?.[0]?.code ?? "";
    return code.startsWith("TOOL_") ? { reason: code, fields: [] } : "same";
  }
  const error = json?.error as
    | { code?: number; data?: { reason?: string }; details?: { reason?: string }[] }
    | undefined;
  if (json?.result !== undefined) return { reason: "PASSED", fields: [] };
  const reason =
    error?.data?.reason ??
    error?.details?.[0]?.reason ??
    (error?.code === undefined ? undefined : `RPC_${Math.abs(error.code)}`);
  return { reason: reason ?? `HTTP_${status}`, fields: [] };
}
