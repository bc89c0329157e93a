import { expect } from "chai";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { freePort } from "../support/free-port.ts";
import { startServer } from "../support/server.ts";
import { asking, connectStateful, connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { startToolsServer, type ToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

type Result = { content: { text: string }[]; isError?: boolean; _meta?: Record<string, Record<string, string>> };
type Escalation = { escalation_id: string; status: string; asked: number };

const CALL = { name: "pay", arguments: { amount: 7 } };
const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };
const expires = { ...asks, escalation_ttl_seconds: 1, conditions: { match_action_types: ["bank.expire"] } };
const textOf = (result: unknown): string => (result as Result).content[0]?.text ?? "";
const escalationOf = (result: unknown) => (result as Result)._meta?.["agentcontrol.v1/decision"]?.escalation_id ?? "";

describe("a call that waits for a person", () => {
  let gateway: GatewayService;
  let upstream: ToolsServer;
  before(async () => {
    upstream = await startToolsServer([tool("pay"), tool("expire")]);
    gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "1500", ACP_PUBLIC_URL: "http://127.0.0.1:7080" } });
    await gateway.add("bank", { url: upstream.url });
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks, expires] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  /** A client of an agent of its own. */
  async function open(connect: typeof connectStateful | typeof connectStateless = connectStateful) {
    const agentId = await gateway.agent();
    const headers = { ...gateway.headers, "x-agent-id": agentId };
    const client = asking(await connect(gateway.urlOf("bank"), headers));
    upstream.calls.length = 0;
    return {
      agentId,
      client,
      headers,
      call: (more: object = {}) => client.request({ method: "tools/call", params: { ...CALL, ...more } }),
      pending: () => pendingOf(agentId),
    };
  }

  async function pendingOf(agentId: string): Promise<Escalation[]> {
    const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
    return ((await gateway.rest(path)) as unknown as { escalations: Escalation[] }).escalations;
  }

  async function waiting(agentId: string, asked = 1): Promise<string> {
    let found: Escalation | undefined;
    await until(async () => {
      [found] = await pendingOf(agentId);
      return found?.asked === asked;
    });
    return found?.escalation_id ?? "";
  }

  const answer = (escalationId: string, body: object) =>
    gateway.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, body);

  for (const connect of [connectStateful, connectStateless]) {
    const generation = connect === connectStateful ? "with a session" : "stateless";
    it(`is forwarded once when it is approved (${generation}).`, async () => {
      const { call, agentId, client } = await open(connect);
      const calling = call();
      await answer(await waiting(agentId), { resolution: "approved" });
      expect(textOf(await calling)).to.equal('pay {"amount":7}');
      expect(upstream.calls).to.have.length(1);
      await client.close();
    });

    it(`tells a model why a person rejected it (${generation}).`, async () => {
      const { call, agentId, client } = await open(connect);
      const calling = call();
      await answer(await waiting(agentId), { resolution: "rejected", note: "ask accounting first" });
      const result = await calling;
      expect(result.isError).to.equal(true);
      expect(textOf(result)).to.contain("A person rejected this call").and.to.contain("ask accounting first");
      expect(upstream.calls).to.have.length(0);
      await client.close();
    });

    it(`says that it is pending when nobody answers in time, and an identical call runs once after (${generation}).`, async () => {
      const { call, client } = await open(connect);
      const result = await call();
      const escalationId = escalationOf(result);
      expect(result.isError).to.equal(true);
      expect(textOf(result))
        .to.contain(escalationId)
        .and.to.contain(`http://127.0.0.1:7080/escalations/${escalationId}`);
      await answer(escalationId, { resolution: "approved" });
      expect(textOf(await call())).to.equal('pay {"amount":7}');
      expect(upstream.calls).to.have.length(1);
      // The approval is used up: the next one waits for its own.
      expect(escalationOf(await call())).not.to.equal(escalationId);
      expect(upstream.calls).to.have.length(1);
      await client.close();
    });
  }

  it("is held no longer for a client that asks for progress, which reads the escalation with its page.", async () => {
    const agentId = await gateway.agent();
    const headers = { ...gateway.headers, "x-agent-id": agentId };
    const client = await connectStateful(gateway.urlOf("bank"), headers);
    upstream.calls.length = 0;
    const told: (string | undefined)[] = [];
    const result = await client.callTool(CALL, undefined, { onprogress: ({ message }) => told.push(message) });
    const escalationId = escalationOf(result);
    expect(textOf(result)).to.contain("waits for a person").and.to.contain(escalationId);
    const page = `http://127.0.0.1:7080/escalations/${escalationId}`;
    expect(told[0]).to.equal(`waiting for a person to approve \`pay\` (escalation ${escalationId}) at ${page}`);
    expect(upstream.calls).to.have.length(0);
    await client.close();
  });

  it("is never forwarded once its client has gone, and the next identical one takes the approval.", async () => {
    const { call, client, agentId, headers } = await open();
    const calling = call().catch((error: Error) => error);
    const escalationId = await waiting(agentId);
    await client.close();
    await calling;
    await answer(escalationId, { resolution: "approved" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(upstream.calls).to.have.length(0);
    const back = asking(await connectStateful(gateway.urlOf("bank"), headers));
    expect(textOf(await back.request({ method: "tools/call", params: CALL }))).to.equal('pay {"amount":7}');
    expect(upstream.calls).to.have.length(1);
    await back.close();
  });

  it("is never forwarded once its client has cancelled it.", async () => {
    const agentId = await gateway.agent();
    const headers = { ...gateway.headers, "x-agent-id": agentId };
    const client = await connectStateful(gateway.urlOf("bank"), headers);
    upstream.calls.length = 0;
    const leaving = new AbortController();
    const calling = client.callTool(CALL, undefined, { signal: leaving.signal }).catch((error: Error) => error);
    const escalationId = await waiting(agentId);
    leaving.abort();
    await calling;
    await new Promise((resolve) => setTimeout(resolve, 200));
    await answer(escalationId, { resolution: "approved" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(upstream.calls).to.have.length(0);
    await client.close();
  });

  it("is forwarded once for two identical callers and one approval.", async () => {
    const { call, agentId, headers, client } = await open();
    const other = asking(await connectStateful(gateway.urlOf("bank"), headers));
    const calling = [call(), other.request({ method: "tools/call", params: CALL })];
    await answer(await waiting(agentId, 2), { resolution: "approved" });
    const texts = (await Promise.all(calling)).map(textOf);
    expect(texts.filter((text) => text === 'pay {"amount":7}')).to.have.length(1);
    expect(texts.filter((text) => text.includes("waits for a person"))).to.have.length(1);
    expect(upstream.calls).to.have.length(1);
    await client.close();
    await other.close();
  });

  it("runs with the arguments that a person approved in its place.", async () => {
    const { call, agentId, client } = await open();
    const calling = call();
    const escalationId = await waiting(agentId);
    await gateway.rest(`POST /v1/enforce/escalations/${escalationId}/edit`, { arguments: { amount: 3 } });
    expect(textOf(await calling)).to.equal('pay {"amount":3}');
    expect(upstream.calls).to.deep.equal([{ name: "pay", arguments: { amount: 3 } }]);
    await client.close();
  });

  it("ends when its escalation is withdrawn.", async () => {
    const { call, agentId, client } = await open();
    const calling = call();
    await gateway.rest(`POST /v1/enforce/escalations/${await waiting(agentId)}/withdraw`, {});
    expect(textOf(await calling)).to.contain("was withdrawn");
    expect(upstream.calls).to.have.length(0);
    await client.close();
  });

  it("ends when its escalation expires.", async () => {
    const { call, client } = await open();
    const result = await call({ name: "expire" });
    expect(textOf(result)).to.contain("Nobody approved this call of `expire` in time.");
    expect(upstream.calls).to.have.length(0);
    await client.close();
  });

  it("ends when its agent is revoked, and is not forwarded.", async () => {
    const { call, agentId } = await open();
    const calling = call().catch((error: Error) => error);
    const escalationId = await waiting(agentId);
    await gateway.rest(`POST /v1/enforce/agents/${agentId}/revoke`, { reason: "test" });
    expect(await calling).to.be.instanceOf(Error);
    await answer(escalationId, { resolution: "approved" }).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(upstream.calls).to.have.length(0);
  });
});

describe("a call that waits for a person longer where a client asks for progress", () => {
  let gateway: GatewayService;
  let upstream: ToolsServer;
  before(async () => {
    upstream = await startToolsServer([tool("pay")]);
    gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "500", ACP_MCP_PROGRESS_HOLD_MS: "120000" } });
    await gateway.add("bank", { url: upstream.url });
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  it("tells every ten seconds how long it has waited, and names the page at the address that the client uses.", async () => {
    const agentId = await gateway.agent();
    const client = await connectStateful(gateway.urlOf("bank"), { ...gateway.headers, "x-agent-id": agentId });
    const told: { progress: number; message?: string | undefined }[] = [];
    const heardTwice = Promise.withResolvers<void>();
    const calling = client.callTool(CALL, undefined, {
      resetTimeoutOnProgress: true,
      onprogress(given) {
        told.push(given);
        if (told.length === 3) heardTwice.resolve();
      },
    });
    await heardTwice.promise;
    const [first, second, third] = told.map(({ progress }) => progress);
    expect(first).to.be.within(0, 1);
    expect([second, third].map((seconds) => Math.round((seconds ?? 0) / 10))).to.deep.equal([1, 2]);
    const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
    const { escalations } = (await gateway.rest(path)) as unknown as { escalations: Escalation[] };
    const escalationId = escalations[0]?.escalation_id ?? "";
    expect(told[2]?.message).to.contain(`(escalation ${escalationId}) at ${gateway.http}/escalations/${escalationId}`);
    await gateway.resolve(escalationId, "approved");
    expect(textOf(await calling)).to.equal('pay {"amount":7}');
    await client.close();
  });

  it("says that it is pending in time to a client that asks for no progress.", async () => {
    const client = asking(await connectStateful(gateway.urlOf("bank"), gateway.headers));
    const result = await client.request({ method: "tools/call", params: CALL });
    expect(textOf(result)).to.contain(`${gateway.http}/escalations/${escalationOf(result)}`);
    await client.close();
  });
});

describe("a call that is held when the service is killed", () => {
  let database: TestDatabase;
  let upstream: ToolsServer;
  before(async () => {
    database = await createTestDatabase();
    upstream = await startToolsServer([tool("pay")]);
  });
  after(async () => {
    await upstream?.close();
    await database?.drop();
  });

  it("is forwarded once, when its client asks again after the approval.", async () => {
    const port = String(await freePort());
    const env = {
      ACP_HTTP_PORT: port,
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_ADMIN_KEY: "acp_0123456789abcdef01",
      ACP_ENCRYPTION_KEY: "k".repeat(32),
    };
    const start = () => startServer({ databaseUrl: database.url, env });
    const headers = { "x-api-key": env.ACP_ADMIN_KEY, "content-type": "application/json" };
    const rest = async (request: string, body?: object): Promise<never> => {
      const [method = "", path = ""] = request.split(" ");
      const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      return (await (await fetch(`http://127.0.0.1:${port}${path}`, init)).json()) as never;
    };
    const first = await start();
    const { agent } = (await rest("POST /v1/enforce/agents", { name: "payer" })) as { agent: { agent_id: string } };
    await rest("POST /v1/enforce/mcp-servers", { name: "bank", url: upstream.url });
    await rest("POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
    const url = new URL(`http://127.0.0.1:${port}/mcp/bank`);
    const who = { ...headers, "x-agent-id": agent.agent_id };
    const client = asking(await connectStateful(url, who));
    const calling = client.request({ method: "tools/call", params: CALL }).catch((error: Error) => error);
    let pending: Escalation[] = [];
    await until(async () => {
      ({ escalations: pending } = (await rest("GET /v1/enforce/escalations?status=pending")) as never);
      return pending.length === 1;
    });
    await first.kill();
    const second = await start();
    try {
      await rest(`POST /v1/enforce/escalations/${pending[0]?.escalation_id}/resolve`, { resolution: "approved" });
      expect(upstream.calls).to.have.length(0);
      const back = asking(await connectStateful(url, who));
      expect(textOf(await back.request({ method: "tools/call", params: CALL }))).to.equal('pay {"amount":7}');
      expect(upstream.calls).to.have.length(1);
      await back.close();
      await client.close();
      await calling;
    } finally {
      await second.stop();
    }
  });
});
