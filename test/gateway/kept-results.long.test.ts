import { expect } from "chai";
import { startBreakableLink } from "../support/breakable-link.ts";
import { createTestDatabase, type TestDatabase, withClient } from "../support/database.ts";
import { sessionUrlOf } from "../support/pooler.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { call, decisionOf, leavingCall, type SlowServer, startSlowServer, textOf } from "./leaving-client.ts";
import { until } from "./until.ts";

const PAY = { name: "pay", arguments: { amount: 7 } };
const asks = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };
const KEY = "acp_0123456789abcdef01";
const MIB = 1_048_576;

describe("an approved call whose client leaves, with several replicas", () => {
  let database: TestDatabase;
  let upstream: SlowServer;
  const running: TestServer[] = [];
  before(async () => {
    database = await createTestDatabase();
    upstream = await startSlowServer();
    const one = await start();
    await rest(one, "POST /v1/enforce/mcp-servers", { name: "bank", url: upstream.url });
    await rest(one, "POST /v1/enforce/mandates", { name: "people pay", rules: [asks] });
  });
  after(async () => {
    await Promise.all(running.map((server) => server.stop()));
    await upstream?.close();
    await database?.drop();
  });
  beforeEach(() => {
    while (upstream.open > 0) upstream.finish();
    upstream.calls.length = 0;
    upstream.cancelled = 0;
  });

  async function start(databaseUrl = database.url): Promise<TestServer> {
    const env = {
      ACP_MCP_ALLOW: "127.0.0.0/8",
      ACP_ADMIN_KEY: KEY,
      ACP_ENCRYPTION_KEY: "k".repeat(32),
      ACP_MCP_HOLD_MS: "45000",
      ACP_MCP_MAX_RESULT_BYTES: String(32 * MIB),
    };
    const server = await startServer({ databaseUrl, env });
    running.push(server);
    return server;
  }

  async function rest(server: TestServer, request: string, body?: object): Promise<never> {
    const [method = "", path = ""] = request.split(" ");
    const headers = { "x-api-key": KEY, "content-type": "application/json" };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const response = await fetch(server.http + path, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${request} answered ${response.status}: ${text}`);
    return JSON.parse(text) as never;
  }

  const ask = (server: TestServer, agentId: string, params: object = PAY, signal?: AbortSignal) =>
    call(new URL(`${server.http}/mcp/bank`), { "x-api-key": KEY, "x-agent-id": agentId }, params, signal);

  async function newAgent(server: TestServer): Promise<string> {
    const { agent } = (await rest(server, "POST /v1/enforce/agents", { name: `payer ${Math.random()}` })) as {
      agent: { agent_id: string };
    };
    return agent.agent_id;
  }

  /** Approves the pending escalation of an agent once there is one. */
  async function approve(server: TestServer, agentId: string): Promise<void> {
    let id: string | undefined;
    await until(async () => {
      const path = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
      const { escalations } = (await rest(server, path)) as { escalations: { escalation_id: string }[] };
      id = escalations[0]?.escalation_id;
      return id !== undefined;
    });
    await rest(server, `POST /v1/enforce/escalations/${id}/resolve`, { resolution: "approved" });
  }

  /** Makes an approved call, and leaves while it runs. */
  async function leave(server: TestServer, agentId: string, params: object = PAY): Promise<void> {
    const before = upstream.calls.length;
    const who = { "x-api-key": KEY, "x-agent-id": agentId };
    const calling = leavingCall(new URL(`${server.http}/mcp/bank`), who, params);
    await approve(server, agentId);
    await until(() => upstream.calls.length > before);
    await calling.leave();
  }

  const statuses = async (agentId: string): Promise<number[]> =>
    withClient(database.ownerUrl, async (client) => {
      const text = "select status from mcp_approved_call where agent_id = $1";
      return (await client.query(text, [agentId])).rows.map(({ status }) => status);
    });

  it("is waited for on another replica, which gives out its result once.", async () => {
    const [one = await start(), two = await start()] = running;
    const agentId = await newAgent(one);
    await leave(one, agentId);
    const waiting = ask(two, agentId);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    upstream.finish("paid 7");
    expect(textOf(await waiting)).to.equal("paid 7");
    await leave(one, agentId, { ...PAY, arguments: { amount: 8 } });
    upstream.finish("paid 8");
    await until(async () => (await statuses(agentId)).join() === "2");
    const eight = { ...PAY, arguments: { amount: 8 } };
    const leaving = new AbortController();
    const retries = [one, two, one, two].map((server) =>
      ask(server, agentId, eight, leaving.signal).catch(() => undefined),
    );
    const first = await Promise.race(retries);
    expect(textOf(first ?? {})).to.equal("paid 8");
    leaving.abort();
    expect(
      (await Promise.all(retries)).filter((each) => each !== undefined && textOf(each) === "paid 8"),
    ).to.have.length(1);
    expect(upstream.calls).to.have.length(2);
  });

  it("may have run when its replica is killed: an identical call hears that, and runs after a new approval only.", async () => {
    const [one = await start()] = running;
    const dying = await start();
    const agentId = await newAgent(one);
    await leave(dying, agentId);
    running.splice(running.indexOf(dying), 1);
    await dying.kill();
    const told = await ask(one, agentId);
    expect(textOf(told)).to.contain("it may have run");
    expect(decisionOf(told).call_status).to.equal("unknown");
    expect(upstream.calls).to.have.length(1);
    const asking = ask(one, agentId);
    await approve(one, agentId);
    await until(() => upstream.calls.length === 2);
    upstream.finish("paid again");
    expect(textOf(await asking)).to.equal("paid again");
  });

  it("may have run when its replica stops in an orderly way.", async () => {
    const [one = await start()] = running;
    const stopping = await start();
    const agentId = await newAgent(one);
    await leave(stopping, agentId);
    running.splice(running.indexOf(stopping), 1);
    await stopping.stop();
    expect(await statuses(agentId)).to.deep.equal([4]);
    expect(textOf(await ask(one, agentId))).to.contain("it may have run");
    expect(upstream.calls).to.have.length(1);
  });

  it("waits for a database that is away when its result comes, and keeps it then.", async () => {
    const url = new URL(sessionUrlOf(database.url));
    const link = await startBreakableLink({ host: url.hostname, port: Number(url.port) });
    url.host = `127.0.0.1:${link.port}`;
    const [one = await start()] = running;
    const cut = await start(url.href);
    const agentId = await newAgent(one);
    await leave(cut, agentId);
    link.break();
    upstream.finish("paid 7");
    await until(() => cut.output().includes("the database is away"));
    expect(await statuses(agentId)).to.deep.equal([1]);
    const waiting = ask(one, agentId);
    link.mend();
    expect(textOf(await waiting)).to.equal("paid 7");
    expect(upstream.calls).to.have.length(1);
    running.splice(running.indexOf(cut), 1);
    await cut.stop();
    await link.close();
  });

  it("may have run when the database stays away from its replica until others take it for dead.", async () => {
    const url = new URL(sessionUrlOf(database.url));
    const link = await startBreakableLink({ host: url.hostname, port: Number(url.port) });
    url.host = `127.0.0.1:${link.port}`;
    const [one = await start()] = running;
    const cut = await start(url.href);
    const agentId = await newAgent(one);
    await leave(cut, agentId);
    link.break();
    upstream.finish("paid 7");
    expect(textOf(await ask(one, agentId))).to.contain("it may have run");
    link.mend();
    // The result that comes too late is dropped.
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect(await statuses(agentId)).to.deep.equal([]);
    expect(upstream.calls).to.have.length(1);
    running.splice(running.indexOf(cut), 1);
    await cut.stop();
    await link.close();
  });

  it("says that its result was too large to keep, and does not run again without a new approval.", async () => {
    const [one = await start()] = running;
    const agentId = await newAgent(one);
    await leave(one, agentId);
    upstream.finish("x".repeat(9 * MIB));
    await until(async () => (await statuses(agentId)).join() === "3");
    const told = await ask(one, agentId);
    expect(textOf(told)).to.contain("too large to keep").and.to.contain("needs a new approval");
    expect(upstream.calls).to.have.length(1);
    expect(await statuses(agentId)).to.deep.equal([]);
  });

  it("keeps at most 64 MiB of a workspace, also where results end at the same moment on two replicas.", async () => {
    const [one = await start(), two = await start()] = running;
    const agents = await Promise.all(Array.from({ length: 12 }, () => newAgent(one)));
    for (const [index, agentId] of agents.entries()) await leave(index % 2 === 0 ? one : two, agentId);
    const text = "x".repeat(7 * MIB);
    for (const _ of agents) upstream.finish(text);
    const all = async () => (await Promise.all(agents.map(statuses))).flat();
    await until(async () => (await all()).every((status) => status !== 1));
    expect((await all()).sort()).to.deep.equal([...Array(9).fill(2), 3, 3, 3]);
    await withClient(database.ownerUrl, (client) => client.query("delete from mcp_approved_call"));
  });

  it("is forgotten at the end of its time, on every replica.", async () => {
    const [one = await start()] = running;
    const agentId = await newAgent(one);
    await leave(one, agentId);
    upstream.finish("paid 7");
    await until(async () => (await statuses(agentId)).join() === "2");
    await withClient(database.ownerUrl, (client) =>
      client.query("update mcp_approved_call set expires_at_ms = 1 where agent_id = $1", [agentId]),
    );
    const asking = ask(one, agentId);
    await approve(one, agentId);
    await until(() => upstream.calls.length === 2);
    upstream.finish("paid again");
    expect(textOf(await asking)).to.equal("paid again");
    // A replica that starts deletes what has expired.
    await start();
    await until(async () => (await statuses(agentId)).length === 0);
  });
});
