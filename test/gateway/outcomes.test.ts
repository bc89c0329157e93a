import type { ServerResponse } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect } from "chai";
import { type CallEnd, endFromFault } from "../../src/gateway/call-end.ts";
import { HttpConnections, HttpEndpoint } from "../../src/gateway/http-endpoint.ts";
import type { McpServer } from "../../src/registry/mcp-servers.ts";
import { createTargets } from "../../src/webhook/target.ts";
import { createAuthority } from "../support/certificates.ts";
import { withClient } from "../support/database.ts";
import { startGatewayBehindLink } from "./behind-link.ts";
import { asking, connectStateless, type GatewayService, startGateway } from "./harness.ts";
import { call, leavingCall, type SlowServer, startSlowServer, textOf } from "./leaving-client.ts";
import { decisionsOf, lastOutcome, settledOutcome } from "./outcomes.ts";
import { openRaw, type RawClient } from "./raw-client.ts";
import { beginStream, type Received, type ScriptedServer, sendJson, startScriptedServer } from "./scripted-server.ts";
import { until } from "./until.ts";

const CALL = { name: "read", arguments: {} };
/** Milliseconds of silence after which the gateway gives a call up. */
const ANSWER_MS = 1_000;

/** What a server does with a call, and what the gateway reports of it; undefined where the call may have run. */
interface Row {
  readonly what: string;
  readonly answer: (asked: Received, response: ServerResponse) => unknown;
  readonly status: "succeeded" | "failed" | "cancelled" | undefined;
  readonly error?: RegExp;
}

const result = (members: object) => (asked: Received, response: ServerResponse) =>
  sendJson(response, { jsonrpc: "2.0", id: asked.id, result: members });

const ROWS: readonly Row[] = [
  { what: "a result", answer: result({ content: [] }), status: "succeeded" },
  {
    what: "a result on a stream, with messages before it",
    answer(asked, response) {
      const send = beginStream(response);
      send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "soon" } });
      send({ jsonrpc: "2.0", id: asked.id, result: { content: [] } });
      response.end();
    },
    status: "succeeded",
  },
  {
    what: "a result with `isError`",
    answer: result({ isError: true, content: [{ type: "text", text: "the password is swordfish" }] }),
    status: "failed",
    error: /^the tool answered with `isError`$/,
  },
  {
    what: "a JSON-RPC error",
    answer: ({ id }, response) =>
      sendJson(response, { jsonrpc: "2.0", id, error: { code: -32_602, message: "swordfish" } }),
    status: "failed",
    error: /^the server answered with the JSON-RPC error -32602$/,
  },
  {
    what: "a JSON-RPC error in an HTTP error",
    answer: ({ id }, response) =>
      sendJson(response, { jsonrpc: "2.0", id, error: { code: -32_000, message: "broken" } }, 500),
    status: "failed",
    error: /-32000$/,
  },
  {
    what: "an error with data of its own",
    answer: ({ id }, response) => {
      const error = { code: 7, message: "no", data: { reason: "MCP_UPSTREAM_UNAVAILABLE" } };
      sendJson(response, { jsonrpc: "2.0", id, error });
    },
    status: "failed",
    error: /error 7$/,
  },
  {
    what: "a refusal of HTTP",
    answer: (_asked, response) => response.writeHead(404).end("no such session"),
    status: "failed",
    error: /HTTP 404$/,
  },
  {
    what: "a refusal of the gateway's credentials",
    answer: (_asked, response) => response.writeHead(401).end(),
    status: "failed",
    error: /could not be reached, or refused/,
  },
  {
    what: "a redirect",
    answer: (_asked, response) => response.writeHead(307, { location: "/other" }).end(),
    status: "failed",
    error: /could not be reached, or refused/,
  },
  {
    what: "the fault of a proxy before it",
    answer: (_asked, response) => response.writeHead(502).end("bad gateway"),
    status: undefined,
  },
  { what: "a broken connection", answer: (_asked, response) => response.destroy(), status: undefined },
  { what: "silence", answer: () => undefined, status: undefined },
  {
    what: "silence after it began a stream",
    answer: (_asked, response) => beginStream(response),
    status: undefined,
  },
  { what: "an empty acknowledgement", answer: (_asked, response) => response.writeHead(202).end(), status: undefined },
  { what: "something else than JSON-RPC", answer: (_asked, response) => response.end("done"), status: undefined },
  {
    what: "more than the gateway reads",
    answer: result({ content: [{ type: "text", text: "a".repeat(2_000_000) }] }),
    status: undefined,
  },
  {
    what: "the response to another request",
    answer: (_asked, response) => sendJson(response, { jsonrpc: "2.0", id: "other", result: {} }),
    status: undefined,
  },
];

describe("the outcome of a call through the gateway", () => {
  let gateway: GatewayService;
  let upstream: ScriptedServer;
  let client: RawClient;
  before(async () => {
    gateway = await startGateway({
      env: { ACP_MCP_ANSWER_MS: String(ANSWER_MS), ACP_MCP_MAX_RESULT_BYTES: "1048576", ACP_MCP_HOLD_MS: "200" },
    });
    upstream = await startScriptedServer();
    await gateway.add("bank", { url: upstream.url }, { drift: "86400" });
    client = await openRaw(gateway, "bank", "with sessions");
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  for (const { what, answer, status, error } of ROWS) {
    it(`is ${status ?? "left open"} after ${what}.`, async () => {
      upstream.answer = (asked, response) => void answer(asked, response);
      await client.ask("tools/call", CALL);
      const decided = await decisionsOf(gateway, client.agentId);
      expect(decided.at(-1)?.claim?.claim_id).to.match(/^[0-9a-f-]{36}$/);
      if (status !== undefined) {
        const outcome = await settledOutcome(gateway, client.agentId);
        expect(outcome).to.include({ status, reported_by: "gateway" });
        expect(outcome?.error ?? "").to.match(error ?? /^$/);
        return;
      }
      // A later call's report is behind any of this one.
      upstream.answer = (asked, response) => result({ content: [] })(asked, response);
      await client.ask("tools/call", CALL);
      expect((await settledOutcome(gateway, client.agentId))?.status).to.equal("succeeded");
      const open = (await decisionsOf(gateway, client.agentId)).at(-2);
      expect(open?.outcome).to.include({ status: "pending", reported_by: null });
    });
  }

  it("is cancelled when its tools cannot be listed any more, since it is not sent.", async () => {
    const gone = await startScriptedServer();
    await gateway.add("gone", { url: gone.url }, { drift: "each_call" });
    const own = await openRaw(gateway, "gone", "with sessions");
    await own.ask("tools/call", CALL);
    await gone.close();
    await own.ask("tools/call", CALL);
    // Its decision was under way when its server was found to be away.
    await until(async () => (await decisionsOf(gateway, own.agentId)).length === 2);
    const outcome = await settledOutcome(gateway, own.agentId);
    expect(outcome).to.include({ status: "cancelled", error: "the call was not sent to its server" });
  });

  it("is left open for a call that its client leaves while it runs.", async () => {
    const slow = await startSlowServer();
    await gateway.add("slow", { url: slow.url }, { drift: "86400" });
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const calling = leavingCall(gateway.urlOf("slow"), who, { name: "pay", arguments: {} });
    await until(() => slow.open === 1);
    await calling.leave();
    await until(() => slow.cancelled === 1);
    const answered = call(gateway.urlOf("slow"), who, { name: "pay", arguments: {} });
    await until(() => slow.open === 1);
    slow.finish();
    await answered;
    await settledOutcome(gateway, agentId);
    const outcomes = (await decisionsOf(gateway, agentId)).map(({ outcome }) => outcome?.status);
    expect(outcomes).to.deep.equal(["pending", "succeeded"]);
    await slow.close();
  });

  it("is cancelled for a decision whose call is not sent, because the tool changed meanwhile.", async () => {
    const changing = await startScriptedServer();
    await gateway.add("changing", { url: changing.url }, { drift: "each_call" });
    const own = await openRaw(gateway, "changing", "with sessions");
    await own.ask("tools/call", CALL);
    await settledOutcome(gateway, own.agentId);
    changing.tools = [{ name: "read", description: "another one", inputSchema: { type: "object" } }];
    await own.ask("tools/call", CALL);
    await settledOutcome(gateway, own.agentId);
    await until(
      async () => !(await decisionsOf(gateway, own.agentId)).some((each) => each.outcome?.status === "pending"),
    );
    const statuses = (await decisionsOf(gateway, own.agentId)).map(({ outcome }) => outcome?.status);
    expect(statuses).to.deep.equal(["succeeded", "cancelled", "succeeded"]);
    await changing.close();
  });

  it("is not tracked for a read, unless the workspace tracks all outcomes.", async () => {
    upstream.answer = (asked, response) => result({ contents: [] })(asked, response);
    const own = await openRaw(gateway, "bank", "with sessions");
    const read = () => own.ask("resources/read", { uri: "notes://a" });
    await read();
    const [first] = await decisionsOf(gateway, own.agentId);
    expect(first?.outcome).to.equal(null);
    expect(first?.claim?.claim_id).to.be.a("string");
    await gateway.rest("PATCH /v1/admin/workspaces/default", { outcomes: "all" });
    try {
      await read();
      expect(await settledOutcome(gateway, own.agentId)).to.include({ status: "succeeded", reported_by: "gateway" });
    } finally {
      await gateway.rest("PATCH /v1/admin/workspaces/default", { outcomes: "tracked" });
    }
  });

  it("is unknown once nobody reported it in time, and the gateway settles it no more.", async () => {
    await gateway.rest("PATCH /v1/admin/workspaces/default", { outcome_timeout_seconds: 1 });
    try {
      const own = await openRaw(gateway, "bank", "with sessions");
      upstream.answer = (_asked, response) => void response.destroy();
      await own.ask("tools/call", CALL);
      expect(await settledOutcome(gateway, own.agentId)).to.include({ status: "unknown", reported_by: "timeout" });
    } finally {
      await gateway.rest("PATCH /v1/admin/workspaces/default", { outcome_timeout_seconds: 3_600 });
    }
  });

  it("gives back what a failed call reserved in a budget, and captures what a call did.", async () => {
    const agentId = await gateway.agent();
    const inputSchema = { type: "object", properties: { amount: { type: "number" }, currency: { type: "string" } } };
    const paying = await startScriptedServer();
    paying.tools = [{ name: "pay", inputSchema }];
    await gateway.add("till", { url: paying.url }, { drift: "86400" });
    const own = await openRaw(gateway, "till", "with sessions", agentId);
    await own.ask("tools/list");
    const sums = [{ tool: "till.pay", field: "amount" }];
    const conditions = { mode: "budget", sums, currency: "EUR", max_total: 10, window_seconds: 3_600 };
    await gateway.rest("POST /v1/enforce/mandates", {
      name: "ten",
      scope: "agent",
      agent_id: agentId,
      rules: [{ type: "sequence", decision: "block", conditions }],
    });
    const pay = (amount: number) => own.ask("tools/call", { name: "pay", arguments: { amount, currency: "EUR" } });
    paying.answer = (asked, response) => result({ isError: true, content: [] })(asked, response);
    await pay(8);
    expect((await settledOutcome(gateway, agentId))?.status).to.equal("failed");
    paying.answer = (asked, response) => result({ content: [] })(asked, response);
    await pay(8);
    expect((await settledOutcome(gateway, agentId))?.status).to.equal("succeeded");
    await pay(8);
    const decided = await decisionsOf(gateway, agentId);
    expect(decided.map(({ decision }) => decision)).to.deep.equal(["allow", "allow", "block"]);
    await paying.close();
  });
});

describe("the outcome of an approved call", () => {
  let gateway: GatewayService;
  let slow: SlowServer;
  before(async () => {
    slow = await startSlowServer();
    gateway = await startGateway({ env: { ACP_MCP_HOLD_MS: "300" } });
    await gateway.add("bank", { url: slow.url }, { drift: "86400" });
    const rule = { type: "action", decision: "escalate", conditions: { match_action_types: ["bank.pay"] } };
    await gateway.rest("POST /v1/enforce/mandates", { name: "people pay", rules: [rule] });
  });
  after(async () => {
    await gateway?.stop();
    await slow?.close();
  });

  it("is reported once, for the decision with the approval, and a retry after the client left runs nothing.", async () => {
    const agentId = await gateway.agent();
    const who = { ...gateway.headers, "x-agent-id": agentId };
    const pay = { name: "pay", arguments: { amount: 3 } };
    const url = gateway.urlOf("bank");
    const { result: asked } = await call(url, who, pay);
    await gateway.resolve(asked?._meta?.["agentcontrol.v1/decision"]?.escalation_id ?? "", "approved");
    const calling = leavingCall(url, who, pay);
    await until(() => slow.open === 1);
    await calling.leave();
    expect(await lastOutcome(gateway, agentId)).to.include({ status: "pending" });
    slow.finish("paid 3");
    expect(await settledOutcome(gateway, agentId)).to.include({ status: "succeeded", reported_by: "gateway" });
    expect(textOf(await call(url, who, pay))).to.equal("paid 3");
    expect(slow.calls).to.have.length(1);
    const decided = await decisionsOf(gateway, agentId);
    expect(decided.map(({ decision, claim }) => [decision, claim !== null])).to.deep.equal([
      ["escalate", false],
      ["allow", true],
    ]);
  });
});

describe("reports of outcomes", () => {
  it("are sealed once the database is back, and before the service stops.", async () => {
    await using cleanup = new AsyncDisposableStack();
    const upstream = await startScriptedServer();
    cleanup.defer(() => upstream.close());
    const { database, link, server, rest, agentId } = await startGatewayBehindLink(upstream.url, cleanup);
    const who = { "x-api-key": server.adminKey, "x-agent-id": agentId };
    const ask = () => call(new URL(`${server.http}/mcp/bank`), who, CALL);
    upstream.answer = (asked, response) => {
      if (asked.method === "tools/call") link.break();
      result({ content: [{ type: "text", text: "done" }] })(asked, response);
    };
    // The client gets its answer although the report cannot be sealed.
    expect(textOf(await ask())).to.equal("done");
    link.mend();
    upstream.answer = (asked, response) => result({ content: [] })(asked, response);
    expect((await settledOutcome({ rest }, agentId))?.status).to.equal("succeeded");
    await Promise.all(Array.from({ length: 20 }, ask));
    await server.stop();
    const statuses = await withClient(database.ownerUrl, async (client) => {
      const { rows } = await client.query<{ body: string }>("select body from ledger_entry order by seq");
      return rows
        .map(({ body }) => JSON.parse(body))
        .flatMap(({ type, status }) => (type === "outcome" ? [status] : []));
    });
    expect(statuses).to.deep.equal(Array(21).fill("succeeded"));
  });
});

describe("the outcome of a call at a server of the other generation", () => {
  let gateway: GatewayService;
  let upstream: ScriptedServer;
  before(async () => {
    gateway = await startGateway();
    upstream = await startScriptedServer();
    await gateway.add("older", { url: upstream.url }, { drift: "86400" });
  });
  after(async () => {
    await gateway?.stop();
    await upstream?.close();
  });

  const BRIDGED: readonly Row[] = ROWS.filter(({ what }) =>
    ["a result", "a result with `isError`", "a JSON-RPC error", "a refusal of HTTP", "a broken connection"].includes(
      what,
    ),
  );
  for (const { what, answer, status } of BRIDGED) {
    it(`is ${status ?? "left open"} after ${what}.`, async () => {
      const agentId = await gateway.agent();
      upstream.answer = (asked, response) => void answer(asked, response);
      const own = asking(await connectStateless(gateway.urlOf("older"), { ...gateway.headers, "x-agent-id": agentId }));
      await own.request({ method: "tools/call", params: CALL }).catch(() => undefined);
      upstream.answer = (asked, response) => result({ content: [] })(asked, response);
      await own.request({ method: "tools/call", params: CALL });
      expect((await settledOutcome(gateway, agentId))?.status).to.equal("succeeded");
      const [first] = await decisionsOf(gateway, agentId);
      expect(first?.outcome?.status).to.equal(status ?? "pending");
      await own.close();
    });
  }
});

describe("a request over HTTP that fails", () => {
  const connections = new HttpConnections(createTargets({ allow: ["127.0.0.0/8"], purpose: "MCP servers" }).lookup);
  after(() => connections.close());
  const endOf = async (url: string): Promise<CallEnd | undefined> => {
    const server = { url, name: "bank", headers: {}, workspaceId: "default" } as unknown as McpServer;
    const request = { method: "POST", headers: {}, body: "{}", signal: new AbortController().signal } as const;
    const answered = new HttpEndpoint(server, connections).fetch(request);
    return answered.then(() => ({ status: "succeeded" }), endFromFault);
  };
  const listening = async (onConnection: (socket: Socket) => void): Promise<Server> => {
    const server = createServer(onConnection);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
  };
  const portOf = (server: Server): number => (server.address() as AddressInfo).port;

  it("surely did not run if nothing listens, its name has no address, or its address is not allowed.", async () => {
    const closed = await listening(() => undefined);
    const port = portOf(closed);
    await new Promise((resolve) => closed.close(resolve));
    for (const url of [`http://127.0.0.1:${port}/`, "http://nowhere.invalid/", `http://localhost:${port}/`])
      expect(await endOf(url), url).to.include({ status: "failed" });
  });

  it("surely did not run if the certificate does not hold.", async () => {
    const secure = createTlsServer(createAuthority().issue(), (socket) => void socket.end());
    await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
    expect(await endOf(`https://127.0.0.1:${portOf(secure)}/`)).to.include({ status: "failed" });
    await new Promise((resolve) => secure.close(resolve));
  });

  it("may have run if the connection breaks once it is open.", async () => {
    for (const onConnection of [
      (socket: Socket) => void socket.destroy(),
      (socket: Socket) => void socket.once("data", () => socket.destroy()),
      (socket: Socket) => void socket.once("data", () => socket.resetAndDestroy()),
    ]) {
      const server = await listening(onConnection);
      expect(await endOf(`http://127.0.0.1:${portOf(server)}/`)).to.equal(undefined);
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
