import { setTimeout as delay } from "node:timers/promises";
import { expect } from "chai";
import { startService, type TestService } from "../support/service.ts";
import { startWaitingServer, type WaitingServer } from "./waiting-server.ts";

const ENV = { ACP_MCP_ALLOW: "127.0.0.0/8", ACP_MCP_HOLD_MS: "100" };
/** More than one workspace alone may have open. */
const AGENTS = 264;

interface Caller {
  readonly key: string;
  readonly agentId: string;
}

interface Outcome {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly text: string | undefined;
  readonly error: { message: string; data?: { reason: string; metadata: Record<string, string> } } | undefined;
}

/** Waits for a condition; the time limit of the test is the only bound. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await delay(10);
}

describe("what workspaces share in the MCP gateway", function () {
  this.timeout(300_000);
  let service: TestService;
  let upstream: WaitingServer;
  let agents: Caller[];
  let other: Caller;
  let third: Caller;

  before(async () => {
    service = await startService({ env: ENV });
    upstream = await startWaitingServer();
    other = await service.workspace("other");
    third = await service.workspace("third");
    for (const key of [service.adminKey, other.key, third.key]) {
      await service.rest("POST /v1/enforce/mcp-servers", { name: "waiting", url: upstream.url }, key);
    }
    agents = [];
    while (agents.length < AGENTS) {
      const made = await Promise.all(Array.from({ length: 12 }, () => service.agent()));
      agents.push(...made.map((agentId) => ({ key: service.adminKey, agentId })));
    }
  });
  after(async () => {
    upstream?.release();
    await service?.stop();
    await upstream?.close();
  });
  beforeEach(() => upstream.hold());
  afterEach(() => upstream.release());

  /** Makes a call of a stateless client. */
  async function call(name: string, { key, agentId }: Caller, signal?: AbortSignal): Promise<Outcome> {
    const envelope = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const response = await fetch(`${service.http}/mcp/waiting`, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        "x-api-key": key,
        "x-agent-id": agentId,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 7,
        method: "tools/call",
        params: { name, arguments: {}, _meta: envelope },
      }),
      ...(signal === undefined ? {} : { signal }),
    });
    const body = await response.text();
    const data = body.split("\n").find((line) => line.startsWith("data: {")) ?? `data: ${body}`;
    const { result, error } = JSON.parse(data.slice("data: ".length)) as {
      result?: { content?: { text: string }[] };
      error?: Outcome["error"];
    };
    const retryAfter = response.headers.get("retry-after");
    return { status: response.status, retryAfter, text: result?.content?.[0]?.text, error };
  }

  it("keeps another workspace's session in mid-call while 264 agents of one make stateless calls; idle ones make room.", async () => {
    const inMidCall = call("wait", other);
    await until(() => upstream.waiting.length === 1);
    const [session] = upstream.waiting;
    const answers: Outcome[] = [];
    for (let begun = 0; begun < AGENTS; begun += 24) {
      answers.push(...(await Promise.all(agents.slice(begun, begun + 24).map((agent) => call("hello", agent)))));
    }
    expect(answers.filter(({ text }) => text !== "hello")).to.deep.equal([]);
    expect(upstream.ended).not.to.include(session);
    await until(() => upstream.ended.length >= AGENTS - 256);
    upstream.release();
    expect((await inMidCall).text).to.equal("waited");
    expect((await call("hello", other)).text).to.equal("hello");
  });

  it("refuses a workspace whose calls hold its share, tells it what and until when, and serves the others.", async () => {
    const inMidCall = call("wait", other);
    await until(() => upstream.waiting.length === 1);
    const calls = agents.map((agent) => call("wait", agent));
    let settled = 0;
    const refusals: Outcome[] = [];
    for (const each of calls) {
      void each.then((outcome) => {
        settled += 1;
        if (outcome.error !== undefined) refusals.push(outcome);
      });
    }
    await until(() => settled + upstream.waiting.length === AGENTS + 1);
    expect(refusals.length).to.be.within(AGENTS - 256, AGENTS - 250);
    for (const { retryAfter, error } of refusals) {
      expect(retryAfter).to.equal("5");
      expect(error?.data?.reason).to.equal("OVERLOADED");
      expect(error?.data?.metadata).to.include({ pot: "mcp_bridges", party: "workspace", retry_after_seconds: "5" });
      expect(error?.message).to.match(
        /^the workspace holds \d+ sessions for stateless MCP clients in this process, and its share is \d+ at the moment; make fewer calls at once, or retry in 5 s$/,
      );
    }
    expect((await call("hello", third)).text).to.equal("hello");
    expect((await call("hello", other)).text).to.equal("hello");
    upstream.release();
    expect((await inMidCall).text).to.equal("waited");
    const served = (await Promise.all(calls)).filter(({ text }) => text === "waited");
    expect(served).to.have.length(AGENTS - refusals.length);
  });
});
