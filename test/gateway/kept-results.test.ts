import { connect as connectTcp } from "node:net";
import { expect } from "chai";
import { withClient } from "../support/database.ts";
import { connectStateful, type GatewayService, startGateway } from "./harness.ts";
import {
  type Answer,
  call,
  decisionOf,
  leavingCall,
  type SlowServer,
  startSlowServer,
  textOf,
} from "./leaving-client.ts";
import { until } from "./until.ts";

const PAY = { name: "pay", arguments: { amount: 7 } };
const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };

describe("an approved call whose client leaves while it runs", () => {
  let gateway: GatewayService;
  let upstream: SlowServer;
  before(async () => {
    upstream = await startSlowServer();
    gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "400" } });
    await gateway.add("bank", { url: upstream.url });
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });
  beforeEach(() => {
    for (; upstream.open > 0; ) upstream.finish();
    upstream.calls.length = 0;
    upstream.cancelled = 0;
  });

  /** An agent with an approval of a call. */
  async function approved(params: object = PAY) {
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const url = gateway.urlOf("bank");
    const ask = (more: object = params) => call(url, who, more);
    const escalationId = decisionOf(await ask()).escalation_id ?? "";
    await gateway.resolve(escalationId, "approved");
    return { agentId, who, ask, escalationId };
  }

  /** Starts the approved call, and leaves while it runs. */
  async function left(params: object = PAY) {
    const agent = await approved(params);
    const calling = leavingCall(gateway.urlOf("bank"), agent.who, params);
    await until(() => upstream.open === 1);
    await calling.leave();
    return agent;
  }

  const rows = async (agentId: string) =>
    withClient(gateway.database.ownerUrl, async (client) => {
      const text = "select status, sealed_result, decision_id from mcp_approved_call where agent_id = $1";
      return (await client.query(text, [agentId])).rows;
    });
  const settled = (agentId: string) => until(async () => (await rows(agentId)).every(({ status }) => status !== 1));
  const entries = async (agentId: string) =>
    withClient(gateway.database.ownerUrl, async (client) => {
      const text = "select body from ledger_entry where agent_id = $1 and kind = 1 order by seq";
      const { rows: found } = await client.query<{ body: string }>(text, [agentId]);
      return found.map(({ body }) => JSON.parse(body)).filter(({ type }) => type === "mcp_result_given");
    });

  it("goes on at the server, and an identical call gets its result once, without a second approval or run.", async () => {
    const { ask, agentId, escalationId } = await left();
    expect(upstream.cancelled).to.equal(0);
    upstream.finish("paid 7");
    await settled(agentId);
    const [row] = await rows(agentId);
    expect(row?.sealed_result.includes("paid 7")).to.equal(false);
    const retried = await ask();
    expect(textOf(retried)).to.equal("paid 7");
    expect(decisionOf(retried)).to.deep.include({ call_status: "kept", decision_id: row?.decision_id });
    expect(await rows(agentId)).to.deep.equal([]);
    const [entry] = await entries(agentId);
    expect(entry).to.deep.include({ decision_id: row?.decision_id, result: "kept" });
    const { escalation } = (await gateway.rest(`GET /v1/enforce/escalations/${escalationId}`)) as unknown as {
      escalation: { used_by_decision_id: string };
    };
    expect(escalation.used_by_decision_id).to.equal(row?.decision_id);
    // The next one is a call like any other.
    expect(textOf(await ask())).to.contain("waits for a person");
    expect(upstream.calls).to.have.length(1);
  });

  it("gives its result to one of two identical calls; the other asks a person.", async () => {
    const { ask, agentId } = await left();
    upstream.finish("paid 7");
    await settled(agentId);
    const texts = (await Promise.all([ask(), ask()])).map(textOf);
    expect(texts.filter((text) => text === "paid 7")).to.have.length(1);
    expect(texts.filter((text) => text.includes("waits for a person"))).to.have.length(1);
    expect(await entries(agentId)).to.have.length(1);
    expect(upstream.calls).to.have.length(1);
  });

  it("is waited for by an identical call, which is told that it runs when the hold is over.", async () => {
    const { ask } = await left();
    const told = await ask();
    expect(textOf(told)).to.contain("still runs").and.to.contain("It does not run twice");
    expect(decisionOf(told).call_status).to.equal("running");
    const waiting = ask();
    await new Promise((resolve) => setTimeout(resolve, 100));
    upstream.finish("paid 7");
    expect(textOf(await waiting)).to.equal("paid 7");
    expect(upstream.calls).to.have.length(1);
  });

  it("keeps its result for its own agent and arguments alone.", async () => {
    const { ask, agentId, who } = await left();
    upstream.finish("paid 7");
    await settled(agentId);
    const other = await gateway.agent();
    const url = gateway.urlOf("bank");
    expect(textOf(await call(url, { ...who, "x-agent-id": other }, PAY))).to.contain("waits for a person");
    expect(textOf(await ask({ ...PAY, arguments: { amount: 8 } }))).to.contain("waits for a person");
    expect(textOf(await ask({ ...PAY, requestState: "another round" }))).to.contain("waits for a person");
    expect(textOf(await ask())).to.equal("paid 7");
  });

  it("keeps the server's error as well.", async () => {
    const { ask, agentId, who } = await approved();
    const answer = upstream.answer;
    const end = Promise.withResolvers<never>();
    upstream.answer = () => end.promise;
    const calling = leavingCall(gateway.urlOf("bank"), who, PAY);
    await until(() => upstream.calls.length === 1);
    await calling.leave();
    end.reject(new Error("out of money"));
    await settled(agentId);
    upstream.answer = answer;
    expect((await ask()).error?.message).to.contain("out of money");
    expect(upstream.calls).to.have.length(1);
  });

  it("keeps the result of the arguments that a person approved in place of the client's.", async () => {
    // The person answers while the call is held, however long that takes.
    await using patient = new AsyncDisposableStack();
    const holding = await startGateway({ env: { ACP_MCP_HOLD_MS: "60000" } });
    patient.defer(async () => void (await holding.stop()));
    await holding.add("bank", { url: upstream.url });
    await holding.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
    const who = { ...holding.headers, "x-agent-id": await holding.agent() };
    const url = holding.urlOf("bank");
    const calling = leavingCall(url, who, PAY);
    const waiting = async () => {
      const { escalations } = (await holding.rest("GET /v1/enforce/escalations")) as unknown as {
        escalations: { escalation_id: string }[];
      };
      return escalations[0]?.escalation_id;
    };
    await until(async () => (await waiting()) !== undefined);
    await holding.rest(`POST /v1/enforce/escalations/${await waiting()}/edit`, { arguments: { amount: 3 } });
    await until(() => upstream.open === 1);
    await calling.leave();
    upstream.finish("paid 3");
    expect(textOf(await call(url, who, PAY))).to.equal("paid 3");
    expect(upstream.calls).to.deep.equal([{ ...PAY, arguments: { amount: 3 } }]);
  });

  it("is told from one whose client got the response.", async () => {
    const { ask, agentId } = await approved();
    const calling = ask();
    await until(() => upstream.open === 1);
    expect((await rows(agentId)).map(({ status }) => status)).to.deep.equal([1]);
    upstream.finish("paid 7");
    expect(textOf(await calling)).to.equal("paid 7");
    await until(async () => (await rows(agentId)).length === 0);
    expect(textOf(await ask())).to.contain("waits for a person");
  });

  it("goes on for a client with a session that says that its time is up.", async () => {
    const { agentId, ask } = await approved();
    const client = await connectStateful(gateway.urlOf("bank"), { ...gateway.headers, "x-agent-id": agentId });
    const calling = client.callTool(PAY, undefined, { timeout: 2_000 }).catch((error: Error) => error);
    await until(() => upstream.open === 1);
    expect(String(await calling)).to.contain("timed out");
    // The gateway hears of it beside the answer.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(upstream.cancelled).to.equal(0);
    const waiting = client.callTool(PAY);
    upstream.finish("paid 7");
    expect(textOf({ result: (await waiting) as Answer["result"] } as Answer)).to.equal("paid 7");
    expect(textOf(await ask())).to.contain("waits for a person");
    expect(upstream.calls).to.have.length(1);
    await client.close();
  });

  it("ends when its client cancels it for another reason; the next identical call hears that it may have run.", async () => {
    const { agentId, ask } = await approved();
    const client = await connectStateful(gateway.urlOf("bank"), { ...gateway.headers, "x-agent-id": agentId });
    const leaving = new AbortController();
    const calling = client.callTool(PAY, undefined, { signal: leaving.signal }).catch((error: Error) => error);
    await until(() => upstream.open === 1);
    leaving.abort("the person pressed stop");
    await calling;
    await until(() => upstream.cancelled === 1);
    await settled(agentId);
    const told = await ask();
    expect(textOf(told)).to.contain("it may have run").and.to.contain("needs a new approval");
    expect((await entries(agentId)).map(({ result }) => result)).to.deep.equal(["unknown"]);
    expect(textOf(await ask())).to.contain("waits for a person");
    expect(upstream.calls).to.have.length(1);
    await client.close();
  });

  it("ends at once when its agent is revoked, whose next call is blocked.", async () => {
    const { agentId, ask } = await left();
    await gateway.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
    await until(() => upstream.cancelled === 1);
    expect(
      textOf(await ask().catch((error: Error) => ({ error: { code: 0, message: String(error) } }))),
    ).not.to.contain("paid");
    expect(await entries(agentId)).to.deep.equal([]);
  });

  it("gives a revoked agent nothing of what it kept.", async () => {
    const { agentId, ask } = await left();
    upstream.finish("paid 7");
    await settled(agentId);
    await gateway.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
    const answer = await ask().catch((error: Error) => ({ error: { code: 0, message: String(error) } }));
    expect(JSON.stringify(answer)).not.to.contain("paid 7");
    expect(await entries(agentId)).to.deep.equal([]);
  });

  it("keeps its result on when the call that asks for it leaves before it has read it.", async () => {
    const { agentId, ask, who } = await left();
    const long = "x".repeat(6_000_000);
    upstream.finish(long);
    await settled(agentId);
    const socket = connectTcp(Number(gateway.urlOf("bank").port), "127.0.0.1");
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { ...PAY, _meta } });
    const headers = {
      host: gateway.urlOf("bank").host,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "pay",
      ...who,
    };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.pause();
    socket.write(`POST /mcp/bank HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
    await until(async () => (await rows(agentId)).length === 0);
    socket.destroy();
    await until(async () => (await rows(agentId)).length === 1);
    expect(textOf(await ask())).to.equal(long);
    expect((await entries(agentId)).map(({ result }) => result)).to.deep.equal(["kept", "kept"]);
    expect(upstream.calls).to.have.length(1);
  });

  it("keeps its result from a call whose tool is refused since, until it is accepted again.", async () => {
    const { agentId, ask } = await left();
    upstream.finish("paid 7");
    await settled(agentId);
    await gateway.rest("PATCH /v1/enforce/mcp-servers/bank", { mode: "quarantine" });
    const { tools } = upstream;
    upstream.tools = tools.map((each) => ({ ...each, description: "changed" }));
    expect(textOf(await ask())).to.contain("waits for a person to accept it");
    upstream.tools = tools;
    expect(textOf(await ask())).to.equal("paid 7");
    await gateway.rest("PATCH /v1/enforce/mcp-servers/bank", { mode: "open" });
  });

  it("is another matter than a call that the rules allow, which is cancelled when its client leaves.", async () => {
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const calling = leavingCall(gateway.urlOf("bank"), who, { name: "read", arguments: {} });
    await until(() => upstream.open === 1);
    await calling.leave();
    await until(() => upstream.cancelled === 1);
    expect(await rows(agentId)).to.deep.equal([]);
  });
});
