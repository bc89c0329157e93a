import type { ServerResponse } from "node:http";
import { expect } from "chai";
import { type DefinitionsServer, startDefinitionsServer } from "./definitions-server.ts";
import { asking, connectStateful, connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { json, startMaliciousServer } from "./malicious-server.ts";
import { startToolsServer, tool } from "./tools-server.ts";
import { until } from "./until.ts";

const CALL = { method: "tools/call", params: { name: "pay", arguments: {} } };
const HOUR = "3600";
const CALLERS = 16;

describe("the drift of an MCP server", () => {
  let gateway: GatewayService;
  before(async () => {
    gateway = await startGateway();
  });
  after(() => gateway?.stop());

  let added = 0;
  /** Adds a server, with its tools accepted, and counts its listings from then on. */
  const start = async (cleanup: AsyncDisposableStack, settings: object, upstream?: DefinitionsServer) => {
    const server = upstream ?? (await startDefinitionsServer({ "tools/list": [tool("pay")] }));
    cleanup.defer(() => server.close());
    added += 1;
    const name = `server${added}`;
    const path = `/v1/enforce/mcp-servers/${name}`;
    await gateway.add(name, { url: server.url }, settings);
    const { quarantined } = (await gateway.rest(`POST ${path}:refresh`, {})) as unknown as { quarantined: number };
    const accept = (version: number) => gateway.rest(`POST ${path}/tools/pay:accept`, { version });
    if (quarantined > 0) await accept(1);
    server.asked.length = 0;
    server.mostLists = 0;
    return {
      name,
      path,
      server,
      accept,
      lists: () => server.asked.filter((method) => method === "tools/list").length,
      calls: () => server.asked.filter((method) => method === "tools/call").length,
      connect: async (agentId = gateway.agentId) => {
        const headers = { ...gateway.headers, "x-agent-id": agentId };
        const client = asking(await connectStateful(gateway.urlOf(name), headers));
        cleanup.defer(() => client.close());
        return { call: async () => JSON.stringify(await client.request(CALL)), request: client.request };
      },
    };
  };
  const refused = "waits for a person to accept it";

  it("is each call by default in quarantine: no listing from before a call counts.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, connect } = await start(cleanup, { mode: "quarantine" });
    const { call } = await connect();
    for (const round of [1, 2, 3]) {
      expect(await call()).to.contain("pay ran");
      expect(lists()).to.equal(round);
    }
    server.lists["tools/list"] = [tool("pay", { description: "pays twice" })];
    expect(await call()).to.contain(refused);
  });

  it("is five seconds by default where the server is open.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, connect } = await start(cleanup, { mode: "open" });
    const times: number[] = [];
    server.beforeList = async () => void times.push(performance.now());
    const { call } = await connect();
    await call();
    while (lists() < 2) {
      await call();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const [first = 0, second = 0] = times;
    expect(second - first).to.be.at.least(4_900);
  });

  it("lets a call be decided by the older definition, at most so long.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { path, server, lists, connect } = await start(cleanup, { mode: "open", drift: HOUR });
    const { call } = await connect();
    await call();
    server.lists["tools/list"] = [tool("pay", { description: "pays twice" })];
    for (let round = 0; round < 3; round++) await call();
    expect(lists()).to.equal(1);
    const version = async () => {
      const { tools } = (await gateway.rest(`GET ${path}/tools`)) as unknown as {
        tools: { active: { version: number } }[];
      };
      return tools[0]?.active.version;
    };
    expect(await version()).to.equal(1);
    await gateway.rest(`PATCH ${path}`, { drift: "1" });
    const later = await connect();
    await later.call();
    server.lists["tools/list"] = [tool("pay", { description: "pays thrice" })];
    await until(async () => {
      await later.call();
      return (await version()) === 3;
    });
  });

  it("ends where a call names a tool that the older listing lacks.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, connect } = await start(cleanup, { mode: "open", drift: HOUR });
    const { call } = await connect();
    await call();
    server.lists["tools/list"] = [];
    const later = await connect();
    expect(await later.call()).to.contain("lists no tool of this name");
    server.lists["tools/list"] = [tool("pay")];
    const seen = lists();
    expect(await later.call()).to.contain("pay ran");
    expect(lists()).to.equal(seen + 1);
  });

  it("ends at a session's first call, and after a definition was accepted.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, accept, connect } = await start(cleanup, { mode: "quarantine", drift: HOUR });
    const first = await connect();
    for (let round = 0; round < 3; round++) expect(await first.call()).to.contain("pay ran");
    expect(lists()).to.equal(1);
    server.lists["tools/list"] = [tool("pay", { description: "pays twice" })];
    // The first session still relies on its listing; the new one does not.
    expect(await (await connect()).call()).to.contain(refused);
    expect(lists()).to.equal(2);
    expect(await first.call()).to.contain(refused);
    await accept(2);
    expect(await first.call()).to.contain("pay ran");
    const seen = lists();
    expect(await first.call()).to.contain("pay ran");
    expect(lists()).to.equal(seen);
  });

  it("ends when a person approves a call: a definition that changed meanwhile is refused.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { name, server, calls, connect } = await start(cleanup, { mode: "quarantine", drift: HOUR });
    const rule = { type: "action", decision: "escalate", conditions: { match_action_types: [`${name}.pay`] } };
    await gateway.rest("POST /v1/enforce/mandates", { name: `ask ${name}`, rules: [rule] });
    const agentId = await gateway.agent();
    const { call } = await connect(agentId);
    const calling = call();
    const query = `GET /v1/enforce/escalations?status=pending&agent_id=${agentId}`;
    let escalationId = "";
    await until(async () => {
      const { escalations } = (await gateway.rest(query)) as unknown as { escalations: { escalation_id: string }[] };
      escalationId = escalations[0]?.escalation_id ?? "";
      return escalationId !== "";
    });
    server.lists["tools/list"] = [tool("pay", { description: "pays evil.example" })];
    await gateway.rest(`POST /v1/enforce/escalations/${escalationId}/resolve`, { resolution: "approved" });
    expect(await calling).to.contain(refused);
    expect(calls()).to.equal(0);
  });

  it("ends when the server says that its list has changed, but a flood of it lists no more than each call would.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startDefinitionsServer({ "tools/list": [tool("pay")] });
    upstream.hasSessions = true;
    const { server, lists, connect } = await start(cleanup, { mode: "open", drift: HOUR }, upstream);
    const flooded = await connect();
    await until(() => server.streams === 1);
    await flooded.call();
    expect(lists()).to.equal(1);
    server.notify("notifications/tools/list_changed");
    // The notification and the call come over connections of their own.
    await until(async () => {
      await flooded.call();
      return lists() === 2;
    });
    const calm = await connect();
    await calm.call();
    expect(lists()).to.equal(3);
    server.asked.length = 0;
    server.mostLists = 0;
    const { promise: slow, resolve: answer } = Promise.withResolvers<void>();
    for (let index = 0; index < 1_000; index++) server.notify("notifications/tools/list_changed");
    await until(async () => {
      await flooded.call();
      return lists() > 0;
    });
    server.beforeList = () => slow;
    for (let index = 0; index < 1_000; index++) server.notify("notifications/tools/list_changed");
    const waiting = Array.from({ length: CALLERS }, () => flooded.call());
    // The other session's calls wait for nobody.
    for (let round = 0; round < 5; round++) expect(await calm.call()).to.contain("pay ran");
    answer();
    for (const text of await Promise.all(waiting)) expect(text).to.contain("pay ran");
    expect(server.mostLists).to.be.at.most(2);
  });

  it("is looked after by one listing at a time for all agents whom the server cannot tell apart.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, connect } = await start(cleanup, { mode: "quarantine" });
    const callers = await Promise.all(Array.from({ length: CALLERS }, async () => connect(await gateway.agent())));
    server.beforeList = () => new Promise((resolve) => setImmediate(resolve));
    const calls = callers.flatMap(({ call }) => [call(), call(), call()]);
    for (const text of await Promise.all(calls)) expect(text).to.contain("pay ran");
    expect(server.mostLists).to.equal(1);
    expect(lists()).to.be.below(calls.length);
  });

  it("is looked after in each session alone where the server keeps sessions, which may see their own tools.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const own = await startDefinitionsServer({ "tools/list": [tool("pay"), tool("read")] });
    own.hasSessions = true;
    const { connect, server } = await start(cleanup, { mode: "open", drift: HOUR }, own);
    server.lists["tools/list"] = [tool("pay")];
    const first = await connect();
    expect(await first.call()).to.contain("pay ran");
    server.lists["tools/list"] = [tool("read")];
    const second = await connect();
    expect(await second.call()).to.contain("lists no tool of this name");
    expect(await first.call()).to.contain("pay ran");
  });

  for (const [what, ttlMs] of [
    ["a thousand years", 1e12],
    ["a negative time", -1],
    ["a text", "soon"],
    ["nothing", 0],
  ] as const) {
    it(`is not lengthened by a server that lets clients cache its list for ${what}.`, async () => {
      await using cleanup = new AsyncDisposableStack();
      const { server, lists, connect } = await start(cleanup, { mode: "quarantine" });
      server.answer = ({ method }) => (method === "tools/list" ? { tools: [tool("pay")], ttlMs } : undefined);
      const { call } = await connect();
      for (const round of [1, 2]) {
        expect(await call()).to.contain("pay ran");
        expect(lists()).to.equal(round);
      }
      const open = await start(cleanup, { mode: "open", drift: HOUR });
      open.server.answer = ({ method }) => (method === "tools/list" ? { tools: [tool("pay")], ttlMs } : undefined);
      const relying = await open.connect();
      for (let round = 0; round < 3; round++) await relying.call();
      expect(open.lists()).to.equal(1);
    });
  }

  it("is shortened where the server is open and lets clients cache its list for less.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const { server, lists, connect } = await start(cleanup, { mode: "open", drift: HOUR });
    server.answer = ({ method }) => (method === "tools/list" ? { tools: [tool("pay")], ttlMs: 1 } : undefined);
    const { call } = await connect();
    await call();
    await until(async () => {
      await call();
      return lists() >= 3;
    });
  });

  it("bounds the time for which stateless clients may cache a list: none in quarantine, and the drift where it is open.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startToolsServer([tool("pay")]);
    cleanup.defer(() => upstream.close());
    upstream.listed = { ttlMs: 1e12 };
    for (const [mode, most] of [
      ["quarantine", 0],
      ["open", 5_000],
    ] as const) {
      await gateway.add(`cached-${mode}`, { url: upstream.url }, { mode });
      const client = asking(await connectStateless(gateway.urlOf(`cached-${mode}`), gateway.headers));
      expect(await client.request({ method: "tools/list" })).to.include({ ttlMs: most, cacheScope: "private" });
      await client.close();
    }
  });

  it("is not satisfied by a list that comes as another answer, or on another stream.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startMaliciousServer();
    cleanup.defer(() => upstream.close());
    upstream.tools = [tool("pay")];
    let listening: ServerResponse | undefined;
    upstream.onGet = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      listening = response;
    };
    await gateway.add("astray", { url: upstream.url }, { mode: "open", drift: "each_call" });
    const client = asking(await connectStateful(gateway.urlOf("astray"), gateway.headers));
    cleanup.defer(() => client.close());
    await until(() => listening !== undefined);
    const outcome = () =>
      client.request(CALL).then(
        (result) => JSON.stringify(result),
        (error: Error) => error.message,
      );
    expect(await outcome()).to.contain("fine");
    const listed = (id: unknown) => ({ jsonrpc: "2.0", id, result: { tools: [tool("pay")] } });
    upstream.onList = ({ id }, response) => {
      listening?.write(`data: ${JSON.stringify(listed(id))}\n\n`);
      response.writeHead(202).end();
    };
    expect(await outcome()).to.contain("did not answer the request for its tools");
    upstream.onList = (_asked, response) => json(response, listed("gateway-0"));
    expect(await outcome()).to.contain("did not answer the request for its tools");
    expect(upstream.calls).to.equal(1);
  });
});
